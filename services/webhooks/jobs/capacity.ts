import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import type { LockedSubscription } from '../subscriptions/subscription-store.ts';

/** Number of waiting deliveries in the queue of a subscription at which a job for it pauses. */
const MAX_QUEUED = 1_000;
/** Maximum number of deliveries that one transaction adds. */
export const BATCH = 200;
/** Pause of a job whose subscription has a full queue. Milliseconds. */
const FULL_REST_MS = 1_000;
/** Pause between two batches, so that a job leaves time on the database for other work. Milliseconds. */
const BATCH_REST_MS = 50;
/** Pause of a job whose subscription is inactive. Milliseconds. */
const INACTIVE_REST_MS = 15_000;

/** How many deliveries a job may add to a subscription now. */
export interface JobCapacity {
  /** Maximum number of deliveries in the next batch; 0 when the job must wait. */
  readonly batch: number;
  /** Time until the next batch, or until the job checks again. Milliseconds. */
  readonly restMs: number;
}

/**
 * Returns the capacity for a subscription. It limits a job to about the rate at which the receiver accepts deliveries.
 */
export async function capacityOf(
  db: Queryable,
  queue: QueueRef,
  target: Pick<LockedSubscription, 'isActive'>,
): Promise<JobCapacity> {
  if (!target.isActive) return { batch: 0, restMs: INACTIVE_REST_MS };
  const result = await db.query<{ queued: number }>(
    `select count(*)::integer as queued from (
       select from queue where shop_id = $1 and subscription_id = $2 limit ${MAX_QUEUED}) as q`,
    [queue.shopId, queue.subscriptionId],
  );
  const batch = Math.min(BATCH, MAX_QUEUED - onlyRow(result).queued);
  return { batch, restMs: batch > 0 ? BATCH_REST_MS : FULL_REST_MS };
}
