import type { JsonValue } from '@bufbuild/protobuf';
import type pg from 'pg';
import type { Queryable } from '../../platform/postgres.ts';

/** A part of a job whose next batch this process has claimed. */
export interface Claim {
  readonly shopId: bigint;
  readonly jobId: bigint;
  readonly subscriptionId: bigint;
  readonly token: bigint;
}

/** The present content of a claimed part. */
export interface Part extends Claim {
  readonly kind: 'replay' | 'backfill';
  /** A `DeliveryFilter`, as stored with the job. */
  readonly filter: JsonValue;
  readonly cursor: string;
  readonly startedAt: Date;
  /** Whether it has waited for a week without progress. */
  readonly isStuck: boolean;
}

/** Longer than any batch. A slower batch loses its claim and is rolled back. Milliseconds. */
const LEASE_MS = 30_000;
const STUCK_DAYS = 7;

/**
 * Claims the part that is due next; undefined when none is due. A stored time that no pause can reach dates from before
 * the database's clock was set back, and is due.
 */
export async function claimPart(pool: pg.Pool): Promise<Claim | undefined> {
  const { rows } = await pool.query<Claim>(
    `update replay_parts p
        set lease_token = nextval('lease_tokens'), next_at = clock_timestamp() + $1 * interval '1 millisecond'
       from (select shop_id, job_id, subscription_id from replay_parts
              where state = 'running' and (next_at <= clock_timestamp()
                       or next_at > clock_timestamp() + 2 * $1 * interval '1 millisecond')
              order by next_at limit 1 for update skip locked) as due
      where p.shop_id = due.shop_id and p.job_id = due.job_id and p.subscription_id = due.subscription_id
     returning p.shop_id as "shopId", p.job_id as "jobId", p.subscription_id as "subscriptionId", p.lease_token as token`,
    [LEASE_MS],
  );
  return rows[0];
}

/** Reads the claimed part; undefined when another process has it now, or it has ended. */
export async function readPart(db: Queryable, claim: Claim): Promise<Part | undefined> {
  return selectPart(db, claim, '');
}

/** Locks the claimed part until the transaction ends; undefined when another process has it now, or it has ended. */
export async function lockPart(tx: Queryable, claim: Claim): Promise<Part | undefined> {
  return selectPart(tx, claim, 'for update of p');
}

async function selectPart(
  db: Queryable,
  claim: Claim,
  lock: '' | 'for update of p',
): Promise<Part | undefined> {
  const { rows } = await db.query<Omit<Part, keyof Claim>>(
    `select j.kind, j.filter, p.cursor, j.started_at as "startedAt",
            p.progress_at < now() - interval '${STUCK_DAYS} days' as "isStuck"
       from replay_parts p join replay_jobs j on j.shop_id = p.shop_id and j.id = p.job_id
      where p.shop_id = $1 and p.job_id = $2 and p.subscription_id = $3 and p.lease_token = $4
        and p.state = 'running' ${lock}`,
    [claim.shopId, claim.jobId, claim.subscriptionId, claim.token],
  );
  return rows[0] && { ...claim, ...rows[0] };
}

/** The progress of a batch. */
export interface Progress {
  readonly cursor: string;
  readonly done: number;
  readonly skipped: number;
  /** Time until the next batch; undefined after the last. Milliseconds. */
  readonly restMs: number | undefined;
}

/** Stores the progress of a batch, in its transaction. */
export async function noteProgress(tx: Queryable, claim: Claim, p: Progress): Promise<void> {
  const isLast = p.restMs === undefined;
  await tx.query(
    `update replay_parts
        set cursor = $5, done = done + $6, skipped = skipped + $7, failures = 0, lease_token = null,
            next_at = clock_timestamp() + $8 * interval '1 millisecond',
            progress_at = case when $6 + $7 > 0 or cursor <> $5 then now() else progress_at end,
            state = case when $9 then 'done' else state end, finished_at = case when $9 then now() end
      where shop_id = $1 and job_id = $2 and subscription_id = $3 and lease_token = $4`,
    [
      ...[claim.shopId, claim.jobId, claim.subscriptionId, claim.token],
      ...[p.cursor, p.done, p.skipped, p.restMs ?? 0, isLast],
    ],
  );
}

/** Marks a part that cannot be finished as failed. */
export async function failPart(tx: Queryable, claim: Claim, error: string): Promise<void> {
  await tx.query(
    `update replay_parts set state = 'failed', error = $5, finished_at = now(), lease_token = null
      where shop_id = $1 and job_id = $2 and subscription_id = $3 and lease_token = $4 and state = 'running'`,
    [claim.shopId, claim.jobId, claim.subscriptionId, claim.token, error],
  );
}

/** A part fails after this many errors in a row. */
const MAX_FAILURES = 5;

/** A failed batch is tried again later. After five failures that are not outages, its part fails. */
export async function retryPart(
  db: Queryable,
  claim: Claim,
  o: { restMs: number; isFault: boolean },
): Promise<void> {
  await db.query(
    `update replay_parts
        set failures = failures + $6::integer, lease_token = null,
            next_at = clock_timestamp() + $5 * interval '1 millisecond',
            state = case when failures + $6::integer >= ${MAX_FAILURES} then 'failed' else state end,
            error = case when failures + $6::integer >= ${MAX_FAILURES} then 'it failed ${MAX_FAILURES} times in a row' else error end,
            finished_at = case when failures + $6::integer >= ${MAX_FAILURES} then now() end
      where shop_id = $1 and job_id = $2 and subscription_id = $3 and lease_token = $4 and state = 'running'`,
    [
      ...[claim.shopId, claim.jobId, claim.subscriptionId, claim.token],
      ...[o.restMs, o.isFault ? 1 : 0],
    ],
  );
}
