import type { Queryable } from '../../platform/postgres.ts';
import type { Claim } from './claim.ts';

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
