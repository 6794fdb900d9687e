import { createHash } from 'node:crypto';
import { fromJson, type JsonValue, toJson } from '@bufbuild/protobuf';
import {
  type DeliveryFilter,
  DeliveryFilterSchema,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import { type Queryable, violatedConstraint } from '../../platform/postgres/postgres.ts';
import { rowsOf, sql, unnamed } from '../../platform/postgres/sql.ts';
import { stateForbids } from '../../platform/values/errors.ts';
import { type Job, type JobKind, jobNotFound, keyConflict } from './job.ts';

/** The part of a job for one subscription. */
export interface NewPart {
  readonly subscriptionId: bigint;
  readonly total: number;
}

const partRows = rowsOf<NewPart>({
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  total: ['integer', ({ total }) => total],
});

export interface NewJob {
  readonly shopId: bigint;
  readonly kind: JobKind;
  readonly key: string;
  /** The filter in the request. A repeat with the same idempotency key must have the same filter. */
  readonly requested: DeliveryFilter;
  /** The filter with which the job works. */
  readonly filter: DeliveryFilter;
}

/**
 * Returns the job that an earlier call with the same idempotency key started; undefined when there is none. Locks the
 * shop until the transaction ends, so that concurrent calls with one key run one after another.
 *
 * @throws DomainError ALREADY_EXISTS when the earlier call had other content.
 */
export async function jobOfKey(
  tx: Queryable,
  job: Omit<NewJob, 'filter'>,
): Promise<Job | undefined> {
  await tx.query(
    `select pg_advisory_xact_lock(hashtextextended('webhooks:replays:' || $1::text, 0))`,
    [job.shopId],
  );
  const { rows } = await tx.query<{ id: bigint; isSame: boolean }>(
    `select id, request_sha256 = $3 as "isSame" from replay_jobs where shop_id = $1 and idempotency_key = $2`,
    [job.shopId, job.key, hashOf(job)],
  );
  const [row] = rows;
  if (!row) return undefined;
  if (!row.isSame) throw keyConflict();
  return readJob(tx, job.shopId, row.id);
}

/**
 * Stores a job with its parts. A job without parts is done immediately.
 *
 * @throws DomainError FAILED_PRECONDITION when another job of one of the subscriptions is running.
 */
export async function insertJob(
  tx: Queryable,
  job: NewJob,
  parts: readonly NewPart[],
): Promise<Job> {
  const result = await tx.query<{ id: bigint }>(
    `insert into replay_jobs (shop_id, kind, idempotency_key, request_sha256, filter)
     values ($1, $2, $3, $4, $5) returning id`,
    [job.shopId, job.kind, job.key, hashOf(job), JSON.stringify(filterJson(job.filter))],
  );
  const { id } = onlyRow(result);
  try {
    await tx.query(
      unnamed(sql`insert into replay_parts (shop_id, job_id, subscription_id, total)
                  select ${job.shopId}::bigint, ${id}::bigint, p.* from ${partRows('p', parts)}`),
    );
  } catch (error) {
    if (violatedConstraint(error) !== 'replay_parts_alone') throw error;
    throw stateForbids('another replay or backfill of the subscription is running');
  }
  return readJob(tx, job.shopId, id);
}

function filterJson(filter: DeliveryFilter): JsonValue {
  return toJson(DeliveryFilterSchema, filter);
}

function hashOf({ kind, requested }: Omit<NewJob, 'filter'>): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([kind, filterJson(requested)]))
    .digest();
}

interface JobRow extends Omit<Job, 'filter'> {
  readonly filter: JsonValue;
}

const JOBS = `
select j.id, j.kind, j.filter, j.started_at as "startedAt", p.total, p.done, p.skipped, p.error, p.state,
       coalesce(p."finishedAt", case when p.state <> 'running' then j.started_at end) as "finishedAt"
  from replay_jobs j
 cross join lateral (
   select coalesce(sum(total), 0)::integer as total, coalesce(sum(done), 0)::integer as done,
          coalesce(sum(skipped), 0)::integer as skipped, coalesce(max(error), '') as error,
          case when bool_or(state = 'running') then null else max(finished_at) end as "finishedAt",
          case when bool_or(state = 'running') then 'running' when bool_or(state = 'failed') then 'failed'
               when bool_or(state = 'cancelled') then 'cancelled' else 'done' end as state
     from replay_parts r where r.shop_id = j.shop_id and r.job_id = j.id) p`;

function toJob(row: JobRow): Job {
  return { ...row, filter: fromJson(DeliveryFilterSchema, row.filter) };
}

/** Reads a job. @throws DomainError NOT_FOUND. */
export async function readJob(db: Queryable, shopId: bigint, id: bigint): Promise<Job> {
  const { rows } = await db.query<JobRow>(`${JOBS} where j.shop_id = $1 and j.id = $2`, [
    shopId,
    id,
  ]);
  if (!rows[0]) throw jobNotFound(id);
  return toJob(rows[0]);
}

/** Reads jobs of a shop, newest first. When there are more than `limit`, returns one more than `limit`. */
export async function readJobs(
  db: Queryable,
  o: { shopId: bigint; subscriptionId: bigint | null; before: bigint | null; limit: number },
): Promise<Job[]> {
  const { rows } = await db.query<JobRow>(
    `${JOBS}
      where j.shop_id = $1 and ($2::bigint is null or exists (
              select from replay_parts r where r.shop_id = $1 and r.job_id = j.id and r.subscription_id = $2))
        and ($3::bigint is null or j.id < $3)
      order by j.id desc limit $4`,
    [o.shopId, o.subscriptionId, o.before, o.limit + 1],
  );
  return rows.map(toJob);
}

/**
 * Cancels the parts of a job that are running. Waits for a batch in progress. Deliveries that the job has already
 * queued are sent.
 *
 * @throws DomainError NOT_FOUND.
 */
export async function cancelJob(db: Queryable, shopId: bigint, id: bigint): Promise<Job> {
  await db.query(
    `update replay_parts set state = 'cancelled', finished_at = now()
      where shop_id = $1 and job_id = $2 and state = 'running'`,
    [shopId, id],
  );
  return readJob(db, shopId, id);
}

/** SQL condition: job `o` ended more than $1 days ago. */
const IS_OLD = `o.started_at < now() - $1 * interval '1 day' and not exists (
          select from replay_parts r where r.shop_id = o.shop_id and r.job_id = o.id
             and (r.state = 'running' or r.finished_at >= now() - $1 * interval '1 day'))`;

/**
 * Deletes jobs that ended more than `o.days` ago. Before that, deletes the lists of the deliveries that these jobs
 * queued. Returns whether there may be more to delete.
 */
export async function purgeJobs(
  db: Queryable,
  o: { days: number; limit: number },
): Promise<boolean> {
  const deliveries = await db.query(
    `delete from job_deliveries d using (
       select j.shop_id, j.job_id, j.delivery_id from replay_jobs o
         join job_deliveries j on j.shop_id = o.shop_id and j.job_id = o.id
        where ${IS_OLD} limit $2) as old
      where d.shop_id = old.shop_id and d.job_id = old.job_id and d.delivery_id = old.delivery_id`,
    [o.days, o.limit],
  );
  const jobs = await db.query(
    `delete from replay_jobs j using (
       select shop_id, id from replay_jobs o
        where ${IS_OLD}
          and not exists (select from job_deliveries d where d.shop_id = o.shop_id and d.job_id = o.id)
        order by o.started_at limit $2) as old
      where j.shop_id = old.shop_id and j.id = old.id`,
    [o.days, o.limit],
  );
  return deliveries.rowCount === o.limit || jobs.rowCount === o.limit;
}
