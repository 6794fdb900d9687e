import type { JsonValue } from '@bufbuild/protobuf';
import type pg from 'pg';
import { createJobLease, LeaseLost } from '../../platform/leases/leases.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { param, raw, sql, unnamed } from '../../platform/postgres/sql.ts';

/** A part of a job whose next batch this process has claimed. */
export interface Claim {
  readonly shopId: bigint;
  readonly jobId: bigint;
  readonly subscriptionId: bigint;
  readonly token: bigint;
}

/** A claimed part, with its current content. */
export interface Part extends Claim {
  readonly kind: 'replay' | 'backfill';
  /** The stored `DeliveryFilter` of the job. */
  readonly filter: JsonValue;
  readonly cursor: string;
  readonly startedAt: Date;
  /** Whether the part has had no progress for a week. */
  readonly isStuck: boolean;
}

const LEASE_MS = 30_000;
const STUCK_DAYS = 7;

/**
 * The leases of parts. A process has one while it works on a batch. When `next_at` is further away than any pause, the
 * database's clock was set back, and the part is due.
 */
export const PARTS = createJobLease<Claim>({
  table: 'replay_parts',
  key: {
    shop_id: ({ shopId }) => shopId,
    job_id: ({ jobId }) => jobId,
    subscription_id: ({ subscriptionId }) => subscriptionId,
  },
  dueAt: 'next_at',
  leaseMs: LEASE_MS,
  tokens: 'lease_tokens',
  isOpen: sql`state = 'running'`,
  due: (limit) => sql`
    select shop_id, job_id, subscription_id from replay_parts
     where state = 'running'
       and (next_at <= clock_timestamp() or next_at > clock_timestamp() + interval '1 minute')
     order by next_at limit ${limit} for update skip locked`,
  returning: sql`job.shop_id as "shopId", job.job_id as "jobId", job.subscription_id as "subscriptionId"`,
});

/** Claims the part that is due first. Undefined when none is due. */
export async function claimPart(pool: pg.Pool): Promise<Claim | undefined> {
  const [claim] = await PARTS.claim<Claim>(pool, 1);
  return claim;
}

/** Reads the claimed part. @throws LeaseLost when another process owns it, or when the part has ended. */
export async function readPart(db: Queryable, claim: Claim, lock = raw('')): Promise<Part> {
  const { rows } = await db.query<Omit<Part, keyof Claim>>(
    unnamed(sql`
select j.kind, j.filter, p.cursor, j.started_at as "startedAt",
       p.progress_at < now() - ${raw(`interval '${STUCK_DAYS} days'`)} as "isStuck"
  from replay_parts p join replay_jobs j using (shop_id)
 where j.id = p.job_id and ${PARTS.isOwned(claim)} ${lock}`),
  );
  if (!rows[0]) throw new LeaseLost('replay_parts');
  return { ...claim, ...rows[0] };
}

/** Reads the claimed part and locks it until the transaction ends. @throws LeaseLost as {@link readPart}. */
export function lockPart(tx: Queryable, claim: Claim): Promise<Part> {
  return readPart(tx, claim, raw('for update of p'));
}

/** The progress after a batch. */
interface Progress {
  readonly cursor: string;
  readonly done: number;
  readonly skipped: number;
  /** Time until the next batch. Undefined after the last one. Milliseconds. */
  readonly restMs: number | undefined;
}

/** Stores the progress of a batch, in the transaction of the batch. @throws LeaseLost */
export async function noteProgress(tx: Queryable, claim: Claim, p: Progress): Promise<void> {
  const [cursor, done, skipped] = [param(p.cursor), param(p.done), param(p.skipped)];
  const isLast = param(p.restMs === undefined);
  await PARTS.write(tx, claim, {
    name: 'replay-progress',
    set: sql`
cursor = ${cursor}, done = done + ${done}::integer, skipped = skipped + ${skipped}::integer, failures = 0,
lease_token = null, next_at = clock_timestamp() + ${p.restMs ?? 0}::float8 * interval '1 millisecond',
progress_at = case when ${done} + ${skipped} > 0 or cursor <> ${cursor} then now() else progress_at end,
state = case when ${isLast}::boolean then 'done' else state end,
finished_at = case when ${isLast} then now() end`,
  });
}

/** Marks a part as failed, because it cannot be finished. @throws LeaseLost */
export async function failPart(tx: Queryable, claim: Claim, error: string): Promise<void> {
  await PARTS.write(tx, claim, {
    name: 'replay-fail',
    set: sql`state = 'failed', error = ${error}, finished_at = now(), lease_token = null`,
  });
}

/** Number of errors in a row after which a part fails. */
const MAX_FAILURES = 5;

/**
 * Schedules another try of a failed batch. After five failures in a row that are not outages, the part fails.
 *
 * @throws LeaseLost
 */
export async function retryPart(
  db: Queryable,
  claim: Claim,
  o: { restMs: number; isOutage: boolean },
): Promise<void> {
  const failures = sql`failures + ${param(o.isOutage ? 0 : 1)}::integer`;
  const isLast = sql`${failures} >= ${raw(MAX_FAILURES)}`;
  await PARTS.write(db, claim, {
    name: 'replay-retry',
    set: sql`
failures = ${failures}, lease_token = null,
next_at = clock_timestamp() + ${o.restMs}::float8 * interval '1 millisecond',
state = case when ${isLast} then 'failed' else state end,
error = case when ${isLast} then ${raw(`'it failed ${MAX_FAILURES} times in a row'`)} else error end,
finished_at = case when ${isLast} then now() end`,
  });
}

/**
 * Stores which deliveries a job has queued, in the transaction of the batch. So users can see how these deliveries
 * ended.
 */
export async function noteQueued(
  tx: Queryable,
  { shopId, jobId }: Pick<Claim, 'shopId' | 'jobId'>,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  await tx.query(
    `insert into job_deliveries (shop_id, job_id, delivery_id)
     select $1, $2, id from unnest($3::uuid[]) as id
     on conflict (shop_id, job_id, delivery_id) do nothing`,
    [shopId, jobId, ids],
  );
}
