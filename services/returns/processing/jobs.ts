import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Actor, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { AdditionalDetails } from '../../commerce/provider.ts';
import { parseExactJson } from '../../contract/validate/exact-json.ts';
import { createJobLease, LeaseLost } from '../../platform/leases/leases.ts';
import { allInOrder } from '../../platform/postgres/all-in-order.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import { afterCommit, type Queryable, together } from '../../platform/postgres/postgres.ts';
import { named, type Param, param, raw, type Sql, sql } from '../../platform/postgres/sql.ts';
import { addedJitter, createBackoff } from '../../platform/process/backoff.ts';
import { systemActor } from '../../platform/security/identity.ts';
import { currentTraceparent, currentTracestate } from '../../platform/telemetry/telemetry.ts';
import { insertTimeline, type NewTimelineEntry } from '../store/timeline-store.ts';

/**
 * Length of a lease. When a worker was killed, another one continues its job after this time (`worker.ts`). A live
 * worker renews its leases, so a call to the provider may take longer. Milliseconds.
 */
export const LEASE_MS = 3_000;

/** Number of takeovers above which a job counts as the cause of crashes. */
const MAX_TAKEOVERS = 20;

/** One run of processing. A worker has its lease while the worker's token is in the row. */
export interface Job {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly returnId: bigint;
  readonly token: bigint;
  readonly details: AdditionalDetails;
  /** Who made the request: `warehouse`, `admin`, `api`; empty when unknown. */
  readonly source: string;
  readonly actor: Actor;
  readonly traceparent: string;
  readonly tracestate: string;
  /** Number of `passing` failures since the last success. */
  readonly failures: number;
  /** True when the job cancels the exchange order and then the return. False when it processes the return. */
  readonly isCancellation: boolean;
  /** Why the job cannot run, as the text after "Processing stopped: "; undefined when it can. */
  readonly failureReason: string | undefined;
}

/** Parses the details that `queueJob` stored. */
export function storedDetails(stored: string): AdditionalDetails {
  return parseExactJson(stored) as AdditionalDetails;
}

/** SQL: the additional details of the last failed job of a return. Parameters: the shop and the return. */
export const LAST_DETAILS = `(select details::text from processing_jobs
         where shop_id = $1 and return_id = $2 and state = 'failed'
         order by id desc limit 1)`;

interface JobRow extends Omit<Job, 'token' | 'details' | 'actor' | 'failureReason'> {
  readonly details: string;
  readonly actor: Uint8Array;
  readonly takeovers: number;
}

/**
 * SQL condition: a row of `processing_jobs` has not ended. A cancellation has the same state while it is queued and
 * while it runs.
 */
export const OPEN_JOB = "state in ('queued', 'running', 'cancelling')";

/**
 * SQL condition: a worker has the lease of an open job. A queued job has no token. Its expiry alone does not end a
 * lease, because the clock of the database may have been set.
 */
export const IS_LEASED = '(finished_at is null and lease_token is not null)';
/** SQL condition: an open job has no lease. This condition and {@link IS_LEASED} each have an index. */
export const IS_WAITING = '(finished_at is null and lease_token is null)';

/**
 * Maximum number of concurrent jobs of one shop, over all processes. So a slow provider does not delay other shops. For a
 * moment there may be twice as many: claims and calls that lease their own job do not see each other before they commit.
 */
export const MAX_JOBS_OF_SHOP = 4;
/** Maximum number of due jobs that a claim considers. When all are of one shop, the next claim skips this shop. */
const LOOK_AT = 200;

/**
 * SQL: numbers the jobs that have been due for the longest time, for each shop, starting after the jobs that the shop
 * already runs. Shops with the fewest running jobs come first.
 */
const jobsWithinLimit = sql`
  busy as (
    select shop_id, count(*) as jobs from processing_jobs
     where ${raw(IS_LEASED)}
     group by shop_id
  ), oldest as (
    select shop_id, id, due_at from processing_jobs
     where ${raw(IS_WAITING)} and due_at <= now()
       and shop_id not in (select shop_id from busy where jobs >= ${raw(MAX_JOBS_OF_SHOP)})
     order by due_at limit ${raw(LOOK_AT)}
  ), counted as (
    select oldest.*, coalesce(busy.jobs, 0) + row_number() over own as nth
      from oldest left join busy using (shop_id)
    window own as (partition by oldest.shop_id order by oldest.due_at, oldest.id)
  )`;

/** SQL of the columns of {@link JobRow}, of a row of `processing_jobs` with the alias `job`. */
const jobColumns = sql`job.shop_id as "shopId", job.id, job.return_id as "returnId", job.details::text,
    job.source, job.actor, job.traceparent, job.tracestate, job.failures, job.takeovers,
    job.state = 'cancelling' as "isCancellation"`;

/** The leases of running jobs. A cancellation has the same state while it is queued and while it runs. */
export const PROCESSING = createJobLease<Job>({
  table: 'processing_jobs',
  key: { shop_id: ({ shopId }) => shopId, id: ({ id }) => id },
  dueAt: 'due_at',
  leaseMs: LEASE_MS,
  tokens: 'processing_tokens',
  // The same rows as OPEN_JOB. With OPEN_JOB, PostgreSQL would read all of a partial index instead of the key: it knows that
  // few jobs are open, but not that the index still has the entries of those that ended since the last vacuum.
  isOpen: raw("state not in ('done', 'failed')"),
  due: (limit) => sql`
    with ${jobsWithinLimit}
    select due.shop_id, due.id from processing_jobs due join counted using (shop_id, id)
     where counted.nth <= ${raw(MAX_JOBS_OF_SHOP)}
       and ${raw(IS_WAITING)} and due.due_at <= now()
     order by counted.nth, due.due_at limit ${limit} for update of due skip locked`,
  onClaim: raw("state = case job.state when 'cancelling' then 'cancelling' else 'running' end"),
  returning: jobColumns,
});

/**
 * Claims up to `limit` due jobs that no worker has. A job that cannot be parsed, or was taken over too often, gets a
 * `failureReason`, so that the other jobs still run.
 */
export async function claimJobs(pool: Queryable, limit: number): Promise<Job[]> {
  return (await PROCESSING.claim<JobRow>(pool, limit)).map(jobOf);
}

function jobOf({ takeovers, ...row }: JobRow & Pick<Job, 'token'>): Job {
  const failureReason =
    takeovers > MAX_TAKEOVERS ? `its workers crashed ${takeovers} times` : undefined;
  try {
    const actor = fromBinary(ActorSchema, row.actor);
    return { ...row, details: storedDetails(row.details), actor, failureReason };
  } catch {
    const actor = create(ActorSchema, systemActor('processing'));
    return { ...row, details: {}, actor, failureReason: 'the stored details cannot be parsed' };
  }
}

/**
 * Returns the time until the next job that no worker has is due. Undefined when there is no job. Milliseconds.
 */
export async function untilNextDueMs(db: Queryable): Promise<number | undefined> {
  const result = await db.query<{ ms: number | null }>({
    name: 'processing-next-due',
    text: `select extract(epoch from min(due_at) - now())::float8 * 1000 as ms
           from processing_jobs where ${IS_WAITING}`,
  });
  return onlyRow(result).ms ?? undefined;
}

/**
 * SQL of a query for the commerce connection of a shop: the address of an endpoint, or the domain of a store. The query
 * returns no row for a shop without a connection.
 */
export const connectedTo = (shopId: bigint): Sql => sql`
  select coalesce(url, shop_domain) from commerce_connections where shop_id = ${shopId}`;

/** The values of a return that are read when it is locked. */
export interface LockedReturn {
  /** The number of events about its order that the commerce provider has reported since the return was submitted. */
  readonly news: number;
  /** Whether something was requested of the provider for this return, and the provider did not reject it. */
  readonly hasRequests: boolean;
  /** The commerce connection of the return's shop, see {@link connectedTo}; null when there is none. */
  readonly connection: string | null;
  /** The random value in the keys of the return's effects. */
  readonly nonce: string;
}

/**
 * Locks the return of a job, and then renews the lease, so that no other worker takes over the job before the commit.
 *
 * @throws LeaseLost
 */
export async function lockReturnOf(tx: Queryable, job: Job): Promise<LockedReturn> {
  const { rows } = await tx.query<LockedReturn>(
    named(
      'processing-lock',
      sql`
with locked as (
  select provider_news, replace(effect_nonce::text, '-', '') as nonce from returns
   where shop_id = ${job.shopId} and id = ${job.returnId} for update
)
update processing_jobs set ${PROCESSING.renewal} from locked where ${PROCESSING.isOwned(job)}
returning locked.provider_news as news, locked.nonce, (${connectedTo(job.shopId)}) as connection, exists (
  select from processing_outcomes o
   where o.shop_id = ${job.shopId} and o.return_id = ${job.returnId}
     and coalesce(o.done_at, o.asked_at) is not null) as "hasRequests"`,
    ),
  );
  if (!rows[0]) throw leaseLost(job);
  return rows[0];
}

/** Ends the run as failed. @throws LeaseLost */
export function finishFailed(tx: Queryable, job: Job): Promise<void> {
  const set = sql`state = 'failed', finished_at = now()`;
  return PROCESSING.write(tx, job, { name: 'processing-finish', set });
}

export function leaseLost(job: Job): LeaseLost {
  return new LeaseLost(`job ${job.id}`);
}

const after = (pauseMs: Param): Sql => sql`now() + ${pauseMs}::float8 * interval '1 millisecond'`;
/** SQL of the assignments that queue a job, so that it is due after `pauseMs`. */
export const queued = (pauseMs: Param): Sql =>
  sql`state = case state when 'cancelling' then 'cancelling' else 'queued' end, lease_token = null,
    due_at = ${after(pauseMs)}`;

/**
 * Queues a job again, because the worker stops, or because the database or an internal service is unavailable. The job
 * is due after `pauseMs`; without a pause, other workers are notified. This does not count as a failure.
 *
 * @throws LeaseLost
 */
export async function releaseJob(db: Queryable, job: Job, pauseMs = 0): Promise<void> {
  await PROCESSING.write(db, job, { name: 'processing-release', set: queued(param(pauseMs)) });
  if (pauseMs === 0) await notifyWorkers(db);
}

/**
 * Queues the job for another run after a `passing` failure. Returns false when this run would be more than
 * `limitMinutes` after the first failure since the last success. Then this worker keeps the lease.
 */
export function postponeJob(
  db: Queryable,
  job: Job,
  o: { pauseMs: number; limitMinutes: number },
): Promise<boolean> {
  const pauseMs = param(o.pauseMs);
  const since = sql`coalesce(failing_since, now())`;
  return PROCESSING.tryWrite(db, job, {
    name: 'processing-postpone',
    set: sql`${queued(pauseMs)}, failures = failures + 1, failing_since = ${since}`,
    and: sql`${after(pauseMs)} <= ${since} + make_interval(mins => ${o.limitMinutes})`,
  });
}

/** Pauses after `passing` failures: 1, 2, 4 … 60 s, and up to 20 % more. */
export const RETRY_BACKOFF = createBackoff({
  firstMs: 1_000,
  longestMs: 60_000,
  jitter: addedJitter,
});

/** Prefix of the channel `processing_<schema>`, which is notified when a job is queued without a lease. */
export const JOBS_CHANNEL_PREFIX = 'processing_';

async function notifyWorkers(db: Queryable): Promise<void> {
  const text = "select pg_notify($1 || current_schema(), '')";
  await db.query({ name: 'processing-notify', text, values: [JOBS_CHANNEL_PREFIX] });
}

/** A job of which this process has the lease, or one that waits for a worker. */
export type QueuedJob = Job | 'waiting';

/**
 * Queues a job, marks its return as queued, and adds a timeline entry. The caller must hold the row lock of the return,
 * and must have checked that no job is queued.
 *
 * @param o.mayLease whether this process runs the job after the commit, which must follow at once. It does, unless the shop
 *   runs its maximum number of jobs.
 * @returns the job when this process has its lease; `waiting` when a worker must claim it.
 */
export async function queueJob(
  tx: Queryable,
  job: Pick<Job, 'shopId' | 'returnId' | 'details' | 'source' | 'actor' | 'isCancellation'>,
  entry: NewTimelineEntry,
  { mayLease = false } = {},
): Promise<QueuedJob> {
  const shop = param(job.shopId);
  const returnId = param(job.returnId);
  // So that calls see each other's leases. Held for this statement and the commit, which the caller sends with it.
  const lock = async () => {
    if (!mayLease) return;
    const text = 'select pg_advisory_xact_lock(hashtextextended($1, 0))';
    const values = [`returns:processing:${job.shopId}`];
    await tx.query({ name: 'processing-lock-shop', text, values });
  };
  // The entries of ended jobs have earlier times, so the index skips them. A live worker has renewed its leases by then.
  const isRecent = sql`due_at > now() - interval '${raw(2 * LEASE_MS)} milliseconds'`;
  const statement = named(
    'processing-queue',
    sql`
with lease as (
  select nextval('processing_tokens') as token, ${PROCESSING.expiry} as expires_at
   where ${mayLease}::boolean and ${raw(MAX_JOBS_OF_SHOP)} > (select count(*) from (
     select from processing_jobs where shop_id = ${shop} and ${raw(IS_LEASED)} and ${isRecent}
      limit ${raw(MAX_JOBS_OF_SHOP)}) leased)
), queued as (
  insert into processing_jobs as job
    (shop_id, return_id, state, details, source, actor, traceparent, tracestate, lease_token, due_at)
  select ${shop}::bigint, ${returnId}::bigint,
         case when ${job.isCancellation}::boolean then 'cancelling' when token is null then 'queued' else 'running' end,
         ${JSON.stringify(job.details)}::json, ${job.source}, ${toBinary(ActorSchema, job.actor)}::bytea,
         ${currentTraceparent()}, ${currentTracestate()}, lease.token, coalesce(lease.expires_at, now())
    from (select) one left join lease on true
  returning ${jobColumns}, job.lease_token as token
), marked as (
  update returns set processing = true, queued_at = coalesce(queued_at, now())
   where shop_id = ${shop} and id = ${returnId}
), entry as (${insertTimeline(job, [entry])})
select * from queued`,
  );
  const [, result] = await together(tx, () =>
    allInOrder([lock(), tx.query<JobRow & { token: bigint | null }>(statement)]),
  );
  const { token, ...row } = onlyRow(result);
  if (token !== null) return jobOf({ ...row, token });
  // After the commit, because PostgreSQL runs commits with a notification one after the other. A lost notification delays
  // the job until the next poll of a worker.
  const isNotified = afterCommit(tx, (pool) => void notifyWorkers(pool).catch(() => {}));
  if (!isNotified) await notifyWorkers(tx);
  return 'waiting';
}
