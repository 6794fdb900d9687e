import type { Queryable } from '../../platform/postgres.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';

/**
 * Returns the ids of the shop's other subscriptions with the same address, topic and trigger, ascending. Equal
 * subscriptions are allowed: each sends every event, with a `webhook-id` of its own. But usually somebody created one
 * twice by mistake.
 */
export async function equalSubscriptions(
  db: Queryable,
  { shopId, subscriptionId }: QueueRef,
): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>(
    `select o.id from subscriptions s
       join subscriptions o on o.shop_id = s.shop_id and o.endpoint_id = s.endpoint_id
        and o.topic = s.topic and o.trigger = s.trigger and o.id <> s.id and o.deleted_at is null
      where s.shop_id = $1 and s.id = $2
      order by o.id`,
    [shopId, subscriptionId],
  );
  return rows.map(({ id }) => id);
}
