import type { Queryable } from '../../platform/postgres.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import type { LockedSubscription } from '../subscriptions/subscription-store.ts';

/** How far a job may run ahead of what a subscription takes. Deliveries. */
const AHEAD = 1_000;
const BATCH = 200;
/** A job of a subscription that takes no more looks again after this. Milliseconds. */
const FULL_REST_MS = 1_000;
/** Between two batches, so that a job never has the database to itself. Milliseconds. */
const BATCH_REST_MS = 50;
/** Of an inactive one, which waits until that is over. Milliseconds. */
const INACTIVE_REST_MS = 15_000;

/** How a job may go on with a subscription at this moment. */
export interface Room {
  /** Most deliveries of the next batch; 0 when it must wait. */
  readonly batch: number;
  /** Until the one after it, or until there may be room again. Milliseconds. */
  readonly restMs: number;
}

/** What may be added to what waits behind an active subscription: a job never runs far ahead. */
export async function capacityOf(
  db: Queryable,
  of: QueueRef,
  target: Pick<LockedSubscription, 'isActive'>,
): Promise<Room> {
  if (!target.isActive) return { batch: 0, restMs: INACTIVE_REST_MS };
  const { rows } = await db.query<{ queued: number }>(
    `select count(*)::integer as queued from (
       select from queue where shop_id = $1 and subscription_id = $2 limit ${AHEAD}) as q`,
    [of.shopId, of.subscriptionId],
  );
  const batch = Math.min(BATCH, AHEAD - (rows[0]?.queued ?? 0));
  return { batch, restMs: batch > 0 ? BATCH_REST_MS : FULL_REST_MS };
}
