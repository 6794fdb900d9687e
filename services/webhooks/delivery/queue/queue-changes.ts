import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { HELD_DAYS } from './end-waiting.ts';
import { notifyDue, notifyReset } from './notify.ts';
import { DELIVERY_SHARDS, type QueueRef } from './queue-ref.ts';

/**
 * Locks a queue. Necessary before a delivery is queued, and before a decision that depends on the queued deliveries.
 */
export async function lockQueue(tx: Queryable, queue: QueueRef): Promise<void> {
  await tx.query(
    'select from subscription_queues where shop_id = $1 and subscription_id = $2 for no key update',
    [queue.shopId, queue.subscriptionId],
  );
}

/** Creates the queue of a new subscription. */
export async function addQueue(tx: Queryable, queue: QueueRef): Promise<void> {
  await tx.query(
    `insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     select shop_id, id, endpoint_id, topic, trigger, endpoint_id % ${DELIVERY_SHARDS}, status = 'active'
       from subscriptions where shop_id = $1 and id = $2`,
    [queue.shopId, queue.subscriptionId],
  );
}

/**
 * Updates the queue after a change of its subscription. When the subscription is active, waiting deliveries are sent to
 * the new address. The caller must have locked the subscription and the queue, so that this function sees the
 * deliveries of a parallel fan-out.
 *
 * @param o.inactiveSince set when the subscription was just activated. Deliveries that were held for too long then
 *   expire before the others are sent, and the health of the endpoint is reset.
 * @param o.offsetMs offset of the retry clock.
 */
export async function changeQueue(
  tx: Queryable,
  queue: QueueRef,
  o: { inactiveSince: Date | null; offsetMs: number },
): Promise<void> {
  const key = [queue.shopId, queue.subscriptionId];
  if (o.inactiveSince) await resetEndpoint(tx, queue);
  // Times are truncated to milliseconds, because JavaScript reads them as `Date` and writes them again.
  await tx.query(
    `with retry_clock as (
       select date_trunc('milliseconds', now() + $3 * interval '1 ms') as at
     ), changed as (
       select s.*, case when $4::timestamptz < clock.at - interval '${HELD_DAYS} days'
                        then clock.at - interval '${HELD_DAYS} days' else sq.expire_before end as expire_before,
              clock.at, exists (
                select from queue q where q.shop_id = s.shop_id and q.subscription_id = s.id) as has_deliveries
         from subscriptions s join subscription_queues sq on sq.shop_id = s.shop_id and sq.subscription_id = s.id,
              retry_clock clock
        where s.shop_id = $1 and s.id = $2
     )
     update subscription_queues sq
        set endpoint_id = changed.endpoint_id, shard = changed.endpoint_id % ${DELIVERY_SHARDS},
            topic = changed.topic, trigger = changed.trigger, is_open = changed.status = 'active',
            expire_before = changed.expire_before,
            ready_at = case when changed.status = 'active' and changed.expire_before is null
                             and changed.has_deliveries then changed.at end
       from changed
      where sq.shop_id = changed.shop_id and sq.subscription_id = changed.id`,
    [...key, o.offsetMs, o.inactiveSince],
  );
  await notifyDue(tx, [queue], { isChange: true });
}

/**
 * Resets the health of the queue's endpoint. Notifies even when no failure is stored, because a process may have
 * failures that are not recorded.
 */
async function resetEndpoint(tx: Queryable, queue: QueueRef): Promise<void> {
  const { rows } = await tx.query<{ endpointId: bigint }>(
    `with reset as (
       update endpoints e
          set flight_cap = default, consecutive_failures = 0, failing_since = null, failed_deliveries = '{}',
              circuit_opened_at = null, held_until = null
         from subscriptions s
        where s.shop_id = $1 and s.id = $2 and e.shop_id = s.shop_id and e.id = s.endpoint_id
          and e.consecutive_failures > 0
     )
     select endpoint_id as "endpointId" from subscriptions where shop_id = $1 and id = $2`,
    [queue.shopId, queue.subscriptionId],
  );
  for (const { endpointId } of rows) await notifyReset(tx, { shopId: queue.shopId, endpointId });
}

/** Closes the queue of a deleted subscription. `startMaintenance` drops its deliveries later. */
export async function closeQueue(tx: Queryable, queue: QueueRef): Promise<void> {
  await tx.query(
    `update subscription_queues set is_open = false, is_deleted = true, expire_before = null, ready_at = null
      where shop_id = $1 and subscription_id = $2`,
    [queue.shopId, queue.subscriptionId],
  );
  await notifyDue(tx, [queue], { isChange: true });
}
