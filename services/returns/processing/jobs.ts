import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Actor, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { parseExactJson } from '../../contract/exact-json.ts';
import { systemActor } from '../../platform/identity.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { currentTraceparent } from '../../platform/telemetry.ts';
import type { AdditionalDetails } from '../commerce/provider.ts';
import {
  insertTimelineWhere,
  type NewTimelineEntry,
  timelineRows,
} from '../store/timeline-store.ts';

/**
 * The time after which another worker continues the job of a killed worker. A live worker renews its leases several
 * times in this span, so a call at the provider may take longer. Seconds.
 */
export const LEASE_S = 3;

/** Commits that queue a job notify `processing_<schema>`. */
export const JOBS_CHANNEL_PREFIX = 'processing_';

/** When workers lost a job this often, the job itself is the cause. */
const MAX_TAKEOVERS = 20;

/** One run of processing. This worker holds it while its token is in the row. */
export interface Job {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly returnId: bigint;
  readonly token: bigint;
  readonly details: AdditionalDetails;
  /** Who asked: `warehouse`, `admin`, `api`; empty when unknown. */
  readonly source: string;
  readonly actor: Actor;
  readonly traceparent: string;
  /** Passing failures in a row so far. */
  readonly failures: number;
  /** Why the job can only fail, as the end of "Processing stopped: "; undefined when it can run. */
  readonly fault: string | undefined;
}

/** Another worker has taken over the job, so this one must not write for it any more. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

const QUEUE = `
with queued as (
  insert into processing_jobs (shop_id, return_id, details, source, actor, traceparent)
  values ($1, $3, $4, $5, $6, $7)
), marked as (
  update returns set processing = true where shop_id = $1 and id = $3
)
${insertTimelineWhere('true')}, pg_notify($8 || current_schema(), '')`;

/**
 * Queues a run, marks its return as queued, and adds a timeline entry. The caller holds the return's row lock and has
 * checked that no run is queued.
 */
export async function queueJob(
  tx: Queryable,
  job: Pick<Job, 'shopId' | 'returnId' | 'details' | 'source' | 'actor'>,
  entry: NewTimelineEntry,
): Promise<void> {
  await tx.query({
    name: 'processing-queue',
    text: QUEUE,
    values: [
      job.shopId,
      timelineRows(job.actor, [entry]),
      job.returnId,
      JSON.stringify(job.details),
      job.source,
      toBinary(ActorSchema, job.actor),
      currentTraceparent(),
      JOBS_CHANNEL_PREFIX,
    ],
  });
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
 * Leases up to `limit` due jobs: queued ones, and running ones whose lease ran out. A job that cannot be read, or was
 * taken over too often, gets a `fault`, so that the other jobs still run.
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
  const hopeless = row.takeovers > MAX_TAKEOVERS;
  const fault = hopeless ? `its worker ended ${row.takeovers} times` : undefined;
  try {
    return {
      ...known,
      details: storedDetails(row.details),
      actor: fromBinary(ActorSchema, row.actor),
      fault,
    };
  } catch {
    const actor = create(ActorSchema, systemActor('processing'));
    return { ...known, details: {}, actor, fault: 'what was asked for cannot be read' };
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

/**
 * Renews the leases of these jobs, except of jobs that have ended or that another worker has taken over. A lease that
 * ran out is renewed, too, because the token protects the job, not the time.
 */
export async function renewJobs(db: Queryable, jobs: readonly Job[]): Promise<void> {
  await db.query({
    name: 'processing-heartbeat',
    text: `update processing_jobs job set due_at = now() + make_interval(secs => $4)
           from (select * from unnest($1::bigint[], $2::bigint[], $3::bigint[])
                   as u (shop_id, id, token) order by shop_id, id) held
           where job.shop_id = held.shop_id and job.id = held.id
             and job.lease_token = held.token and job.state = 'running'`,
    values: [
      jobs.map((job) => job.shopId),
      jobs.map((job) => job.id),
      jobs.map((job) => job.token),
      LEASE_S,
    ],
  });
}

/** Changes the row of a job that this worker holds. @throws LeaseLost when it does not hold it any more. */
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
 * Puts a job into the queue again, when the worker stops or after an outage of our own. It is due after `delayS`
 * seconds. This does not count as an attempt. @throws LeaseLost
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
 * Queues the job for another attempt. False when that would be more than `limitMinutes` after the first failure since
 * the last success; then this worker still holds the job.
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

/** The pause before another attempt. Seconds. */
export type RetryDelay = (failures: number) => number;

const FIRST_DELAY_S = 1;
const LONGEST_DELAY_S = 60;
const JITTER = 0.2;

/** 1, 2, 4 … 60 s after the first, second … failure, plus up to 20 %. */
export const retryDelay: RetryDelay = (failures) =>
  Math.min(FIRST_DELAY_S * 2 ** failures, LONGEST_DELAY_S) * (1 + Math.random() * JITTER);
