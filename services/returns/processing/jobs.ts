import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Actor, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { parseExactJson } from '../../contract/exact-json.ts';
import { systemActor } from '../../platform/identity.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, param, rowsOf, sql } from '../../platform/sql.ts';
import { currentTraceparent } from '../../platform/telemetry.ts';
import type { AdditionalDetails } from '../commerce/provider.ts';
import { insertTimeline, type NewTimelineEntry } from '../store/timeline-store.ts';

/**
 * The duration of a lease. After it, another worker continues the job of a killed worker. A live worker renews its
 * leases several times in this time, so a call to the provider may take longer. Seconds.
 */
export const LEASE_S = 3;

/** The commit that queues a job notifies the channel `processing_<schema>`. */
export const JOBS_CHANNEL_PREFIX = 'processing_';

/** A job that was taken over more often counts as the cause of the crashes. */
const MAX_TAKEOVERS = 20;

/** One run of processing. This worker has the lease while its token is in the row. */
export interface Job {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly returnId: bigint;
  readonly token: bigint;
  readonly details: AdditionalDetails;
  /** Where the request came from: `warehouse`, `admin`, `api`; empty when unknown. */
  readonly source: string;
  readonly actor: Actor;
  readonly traceparent: string;
  /** Transient failures since the last success. */
  readonly failures: number;
  /** Why the job cannot run. Follows "Processing stopped: "; undefined when it can. */
  readonly failureReason: string | undefined;
}

/** Another worker has taken over the job, so this one must not write for it any more. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/**
 * Queues a job, marks its return as queued, and adds a timeline entry. The caller holds the return's row lock and has
 * checked that no job is queued.
 */
export async function queueJob(
  tx: Queryable,
  job: Pick<Job, 'shopId' | 'returnId' | 'details' | 'source' | 'actor'>,
  entry: NewTimelineEntry,
): Promise<void> {
  const shop = param(job.shopId);
  const returnId = param(job.returnId);
  await tx.query(
    named(
      'processing-queue',
      sql`
with queued as (
  insert into processing_jobs (shop_id, return_id, details, source, actor, traceparent)
  values (${shop}, ${returnId}, ${JSON.stringify(job.details)}, ${job.source},
          ${toBinary(ActorSchema, job.actor)}, ${currentTraceparent()})
), marked as (
  update returns set processing = true where shop_id = ${shop} and id = ${returnId}
)
${insertTimeline(job, [entry])}, pg_notify(${JOBS_CHANNEL_PREFIX} || current_schema(), '')`,
    ),
  );
}

/** Details as {@link queueJob} wrote them. */
export function storedDetails(stored: string): AdditionalDetails {
  return parseExactJson(stored) as AdditionalDetails;
}

interface JobRow {
  readonly shop_id: bigint;
  readonly id: bigint;
  readonly return_id: bigint;
  readonly lease_token: bigint;
  readonly details: string;
  readonly source: string;
  readonly actor: Uint8Array;
  readonly traceparent: string;
  readonly failures: number;
  readonly takeovers: number;
}

const CLAIM = `
update processing_jobs job
set state = 'running', lease_token = nextval('processing_tokens'),
    due_at = now() + make_interval(secs => $2),
    takeovers = job.takeovers + (job.state = 'running')::integer
from (
  select shop_id, id from processing_jobs
  where state in ('queued', 'running') and due_at <= now()
  order by due_at
  limit $1
  for update skip locked
) due
where job.shop_id = due.shop_id and job.id = due.id
returning job.shop_id, job.id, job.return_id, job.lease_token, job.details::text,
  job.source, job.actor, job.traceparent, job.failures, job.takeovers`;

/**
 * Leases up to `limit` due jobs: queued jobs, and running jobs whose lease expired. A job that cannot be parsed, or was
 * taken over too often, gets a `failureReason`, so that the other jobs still run.
 */
export async function claimJobs(pool: Queryable, limit: number): Promise<Job[]> {
  const { rows } = await pool.query<JobRow>({
    name: 'processing-claim',
    text: CLAIM,
    values: [limit, LEASE_S],
  });
  return rows.map(jobOf);
}

function jobOf(row: JobRow): Job {
  const { shop_id: shopId, id, return_id: returnId, lease_token: token } = row;
  const { source, traceparent, failures } = row;
  const known = { shopId, id, returnId, token, source, traceparent, failures };
  const failureReason =
    row.takeovers > MAX_TAKEOVERS ? `its workers crashed ${row.takeovers} times` : undefined;
  try {
    return {
      ...known,
      details: storedDetails(row.details),
      actor: fromBinary(ActorSchema, row.actor),
      failureReason,
    };
  } catch {
    const actor = create(ActorSchema, systemActor('processing'));
    return { ...known, details: {}, actor, failureReason: 'the stored details cannot be parsed' };
  }
}

/**
 * The time until a job is due: a retry, or a running job whose worker does not renew the lease. Undefined when there
 * is no job. Milliseconds.
 */
export async function untilNextDueMs(db: Queryable): Promise<number | undefined> {
  const { rows } = await db.query<{ ms: number | null }>({
    name: 'processing-next-due',
    text: `select extract(epoch from min(due_at) - now())::float8 * 1000 as ms
           from processing_jobs where state in ('queued', 'running')`,
  });
  return rows[0]?.ms ?? undefined;
}

const jobRows = rowsOf<Job>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  id: ['bigint', ({ id }) => id],
  token: ['bigint', ({ token }) => token],
});

/**
 * Renews the leases of these jobs, except of jobs that are finished or that another worker has taken over. A lease that
 * has expired is renewed, too: the token protects the job, not the time.
 */
export async function renewJobs(db: Queryable, jobs: readonly Job[]): Promise<void> {
  await db.query(
    named(
      'processing-heartbeat',
      sql`update processing_jobs job set due_at = now() + make_interval(secs => ${LEASE_S})
          from (select * from ${jobRows('u', jobs)} order by shop_id, id) held
          where job.shop_id = held.shop_id and job.id = held.id
            and job.lease_token = held.token and job.state = 'running'`,
    ),
  );
}

/** Changes the row of a job that this worker has leased. @throws LeaseLost when another worker has taken it over. */
async function write(db: Queryable, job: Job, change: Change): Promise<void> {
  const { rowCount } = await db.query({
    name: change.name,
    text: `update processing_jobs set ${change.set}
           where shop_id = $1 and id = $2 and lease_token = $3 and state = 'running'`,
    values: [job.shopId, job.id, job.token, ...change.values],
  });
  if (rowCount !== 1) throw leaseLost(job);
}

interface Change {
  readonly name: string;
  readonly set: string;
  readonly values: readonly unknown[];
}

/**
 * Locks the return of a job, then renews the lease, so that no other worker takes over before the commit.
 *
 * @throws LeaseLost
 */
export async function lockReturnOf(tx: Queryable, job: Job): Promise<void> {
  const { rowCount } = await tx.query({
    name: 'processing-lock',
    text: `with locked as (
             select shop_id, id from returns where shop_id = $1 and id = $5 for update
           )
           update processing_jobs job set due_at = now() + make_interval(secs => $4)
             from locked
            where job.shop_id = locked.shop_id and job.return_id = locked.id and job.id = $2
              and job.lease_token = $3 and job.state = 'running'`,
    values: [job.shopId, job.id, job.token, LEASE_S, job.returnId],
  });
  if (rowCount !== 1) throw leaseLost(job);
}

/** Ends the run as failed. @throws LeaseLost */
export function finishFailed(tx: Queryable, job: Job): Promise<void> {
  const set = "state = 'failed', finished_at = now()";
  return write(tx, job, { name: 'processing-finish', set, values: [] });
}

export function leaseLost(job: Job): LeaseLost {
  return new LeaseLost(`job ${job.id} was taken over`);
}

/**
 * Queues a job again, when the worker stops, or when the database or an internal service is unavailable. It is due after
 * `delayS` seconds. This does not count as a failure. @throws LeaseLost
 */
export function releaseJob(db: Queryable, job: Job, delayS = 0): Promise<void> {
  const set = "state = 'queued', due_at = now() + make_interval(secs => $4)";
  return write(db, job, { name: 'processing-release', set, values: [delayS] });
}

const POSTPONE = `
update processing_jobs
set state = 'queued', failures = failures + 1, failing_since = coalesce(failing_since, now()),
    due_at = now() + make_interval(secs => $4)
where shop_id = $1 and id = $2 and lease_token = $3 and state = 'running'
  and now() + make_interval(secs => $4)
      <= coalesce(failing_since, now()) + make_interval(mins => $5)`;

/**
 * Queues the job for another run after a transient failure. False when the run would be more than `limitMinutes` after
 * the first failure since the last success; then this worker keeps the lease.
 */
export async function postponeJob(
  db: Queryable,
  job: Job,
  o: { delayS: number; limitMinutes: number },
): Promise<boolean> {
  const values = [job.shopId, job.id, job.token, o.delayS, o.limitMinutes];
  const { rowCount } = await db.query({ name: 'processing-postpone', text: POSTPONE, values });
  return rowCount === 1;
}

/** The pause before the next run. Seconds. */
export type RetryDelay = (failures: number) => number;

const FIRST_DELAY_S = 1;
const LONGEST_DELAY_S = 60;
const JITTER = 0.2;

/** 1, 2, 4 … 60 s after the first, second … failure, plus up to 20 %. */
export const retryDelay: RetryDelay = (failures) =>
  Math.min(FIRST_DELAY_S * 2 ** failures, LONGEST_DELAY_S) * (1 + Math.random() * JITTER);
