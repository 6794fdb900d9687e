import type { Queryable } from '../../../platform/postgres.ts';
import { HELD_DAYS } from './end-waiting.ts';
import { notifyDue, notifyReset } from './notify.ts';
import { DELIVERY_SHARDS, type QueueRef } from './queue-ref.ts';

/** Locks a queue before a delivery is queued, and before a decision that depends on the queued deliveries. */
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
 * Updates the queue after a change of its subscription. Waiting deliveries are sent to the new address if the
 * subscription is active. The caller has locked the subscription and the queue, so that this sees deliveries of a
 * parallel fan-out.
 *
 * @param o.inactiveSince set for a subscription that was just activated: deliveries held for too long expire before the
 *   rest is sent, and the circuit of its endpoint is reset.
 * @param o.offsetMs of the retry clock.
 */
export async function changeQueue(
  tx: Queryable,
  queue: QueueRef,
  o: { inactiveSince: Date | null; offsetMs: number },
): Promise<void> {
  const key = [queue.shopId, queue.subscriptionId];
  if (o.inactiveSince) await resetEndpoint(tx, queue);
  // In milliseconds, because a JavaScript date cannot hold microseconds when the value is written back.
  await tx.query(
    `with now_ as (
       select date_trunc('milliseconds', now() + $3 * interval '1 ms') as at
     ), after as (
       select s.*, case when $4::timestamptz < now_.at - interval '${HELD_DAYS} days'
                        then now_.at - interval '${HELD_DAYS} days' else l.expire_before end as expire_before,
              now_.at, exists (
                select from queue q where q.shop_id = s.shop_id and q.subscription_id = s.id) as waits
         from subscriptions s join subscription_queues l on l.shop_id = s.shop_id and l.subscription_id = s.id, now_
        where s.shop_id = $1 and s.id = $2
     )
     update subscription_queues l
        set endpoint_id = a.endpoint_id, shard = a.endpoint_id % ${DELIVERY_SHARDS}, topic = a.topic,
            trigger = a.trigger, is_open = a.status = 'active', expire_before = a.expire_before,
            ready_at = case when a.status = 'active' and a.expire_before is null and a.waits then a.at end
       from after a
      where l.shop_id = a.shop_id and l.subscription_id = a.id`,
    [...key, o.offsetMs, o.inactiveSince],
  );
  await notifyDue(tx, [queue], { isChange: true });
}

/** Notifies even when no failure is stored, because the sending process may have unrecorded failures. */
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

/** The subscription is deleted. Maintenance later drops what its queue holds. */
export async function closeQueue(tx: Queryable, queue: QueueRef): Promise<void> {
  await tx.query(
    `update subscription_queues set is_open = false, is_deleted = true, expire_before = null, ready_at = null
      where shop_id = $1 and subscription_id = $2`,
    [queue.shopId, queue.subscriptionId],
  );
  await notifyDue(tx, [queue], { isChange: true });
}
