import type { Queryable } from '../../../platform/postgres/postgres.ts';
import { dayOf, rangeOfDay } from '../../delivery-id.ts';
import { notifyDue } from './notify.ts';
import type { QueueRef } from './queue-ref.ts';

/**
 * Queues finished deliveries again. They get the whole retry schedule. They keep their `webhook-id` and bytes, and are
 * sent to the current address of their subscription, after fresh deliveries. Deliveries of an inactive subscription are
 * held. Skips deliveries that are already queued, and those without a payload (see {@link HAS_BODY}).
 *
 * The caller must have locked the subscriptions (`for share` is enough), so that none is deleted before the commit.
 *
 * @param o.offsetMs offset of the retry clock.
 * @param o.key idempotency key of the call. Deliveries that an earlier call with this key has queued are skipped.
 * @returns the ids of the deliveries that were queued.
 */
export async function requeue(
  tx: Queryable,
  o: { shopId: bigint; ids: readonly string[]; offsetMs: number; key?: string | undefined },
): Promise<string[]> {
  if (o.ids.length === 0) return [];
  const queues = await lockQueuesOf(tx, o);
  const started: string[] = [];
  const days = Map.groupBy(o.ids, (id) => dayOf(id).getTime());
  for (const [day, ids] of [...days].sort(([a], [b]) => a - b)) {
    const { rows } = await tx.query<{ id: string }>(requeueOf(new Date(day)), [
      o.shopId,
      ids,
      o.offsetMs,
      o.key ?? null,
    ]);
    started.push(...rows.map((row) => row.id));
  }
  if (started.length > 0) await notifyDue(tx, queues, { isChange: false });
  return started;
}

/**
 * Locks the queues before the deliveries. Without this order, a parallel unload would miss the deliveries that are
 * queued.
 */
async function lockQueuesOf(
  tx: Queryable,
  o: { shopId: bigint; ids: readonly string[] },
): Promise<QueueRef[]> {
  const { rows } = await tx.query<QueueRef>({
    name: 'lock-queues-of',
    text: `select sq.shop_id as "shopId", sq.subscription_id as "subscriptionId" from subscription_queues sq
            where sq.shop_id = $1 and sq.subscription_id in (
              select d.subscription_id from deliveries d where d.shop_id = $1 and d.id = any($2::uuid[]))
            order by sq.subscription_id for no key update of sq`,
    values: [o.shopId, o.ids],
  });
  return rows;
}

/**
 * SQL condition: payload `p` still has the bytes that the finished delivery `d` sent. A redaction replaces the payload
 * by one without the customer, for later deliveries. Deliveries that ended before the redaction sent other bytes.
 */
export const HAS_BODY =
  '(p.body is not null and (p.redacted_at is null or d.finished_at >= p.redacted_at))';

// The statement also locks the payload, so that a parallel redaction happens completely before it or after it. There is
// one statement for each day, as in `recordStatement`.
const requeueOf = (day: Date): string => {
  const { first, end } = rangeOfDay(day);
  return `
with requested as materialized (
  select d.shop_id, d.id, d.subscription_id, d.payload_id, octet_length(p.body) as bytes
    from deliveries d join payloads p on p.shop_id = d.shop_id and p.id = d.payload_id
   where d.shop_id = $1 and d.id = any($2::uuid[]) and d.ended is not null and ${HAS_BODY}
     and d.id >= '${first}' and d.id < '${end}' and p.id >= '${first}' and p.id < '${end}'
     and ($4::text is null or d.replay_key is distinct from $4)
   order by d.id for update of d for share of p
), started as (
  update deliveries d set ended = null, finished_at = null, replay_key = coalesce($4, d.replay_key)
    from requested w where d.shop_id = w.shop_id and d.id = w.id and d.id >= '${first}' and d.id < '${end}'
), queued as (
  insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at, attempts)
  select w.shop_id, w.subscription_id, w.id, w.payload_id, w.bytes, true,
         now() + $3 * interval '1 ms', now() + $3 * interval '1 ms', now() + $3 * interval '1 ms', coalesce((
           select max(a.number) from attempts a where a.shop_id = w.shop_id and a.delivery_id = w.id), 0)
    from requested w
  on conflict (shop_id, subscription_id, id) do nothing
  returning id, subscription_id
), marked as (
  update subscription_queues sq set ready_at = now() + $3 * interval '1 ms'
   where sq.shop_id = $1 and sq.subscription_id in (select q.subscription_id from queued q)
     and sq.is_open and sq.expire_before is null
     and (sq.ready_at is null or sq.ready_at > now() + $3 * interval '1 ms')
)
select id from queued order by id`;
};
