import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { named, param, rowsOf, type Sql, sql } from '../../platform/postgres/sql.ts';
import { deliveryIdOf, type EventKey, payloadIdOf } from '../delivery-id.ts';

/** A delivery to write: one event for one subscription, with its body. */
export interface NewDelivery {
  readonly event: Event;
  readonly subscriptionId: bigint;
  readonly topic: string;
  readonly version: string;
  readonly body: Uint8Array;
  readonly isTest: boolean;
}

/** A delivery that was queued. */
export interface QueuedDelivery {
  readonly id: string;
  /** See `Due`. */
  readonly round: string;
  readonly queuedAtMs: number;
  /**
   * Whether its own body was stored. Otherwise an earlier body exists and is used, because it may already have been
   * sent.
   */
  readonly isOwnBody: boolean;
}

/** Returns the id and time of an event, from which the ids of its deliveries are made. */
export function eventKeyOf({ eventId, occurredAt }: Event): EventKey {
  return { eventId, occurredAt: occurredAt ? timestampDate(occurredAt) : new Date(0) };
}

/**
 * Stores bodies and deliveries, which are due at once, and marks their queues ready. Does not change deliveries that
 * already exist, finished or waiting. The caller must have locked the queues.
 *
 * @param o.offsetMs offset of the retry clock.
 * @param o.isRetry whether the deliveries are sent after fresh deliveries.
 * @returns the deliveries that are new.
 */
export async function insertDeliveries(
  tx: Queryable,
  deliveries: readonly NewDelivery[],
  o: { offsetMs: number; isRetry?: boolean },
): Promise<QueuedDelivery[]> {
  if (deliveries.length === 0) return [];
  const rows = deliveries.map((delivery): Row => {
    const { event, topic, version } = delivery;
    return { ...delivery, payloadId: payloadIdOf(eventKeyOf(event), topic, version) };
  });
  const bodies = new Map(rows.map((row) => [`${row.event.shopId} ${row.payloadId}`, row]));
  const statement = insertStatement(rows, [...bodies.values()], o);
  return (await tx.query<QueuedDelivery>(named('insert-deliveries', statement))).rows;
}

/** A delivery to write, with the id of its body. */
interface Row extends NewDelivery {
  readonly payloadId: string;
}

const bodyRows = rowsOf<Row>({
  shop_id: ['bigint', ({ event }) => event.shopId],
  id: ['uuid', ({ payloadId }) => payloadId],
  event_id: ['uuid', ({ event }) => event.eventId],
  trigger: ['text', ({ event }) => event.trigger],
  topic: ['text', ({ topic }) => topic],
  api_version: ['text', ({ version }) => version],
  return_id: ['bigint', ({ event }) => event.returnId || null],
  revision: ['bigint', ({ event }) => event.revision],
  traceparent: ['text', ({ event }) => event.traceparent],
  is_test: ['boolean', ({ isTest }) => isTest],
  bytes: ['integer', ({ body }) => body.length],
});

const deliveryRows = rowsOf<Row>({
  shop_id: ['bigint', ({ event }) => event.shopId],
  id: ['uuid', ({ event, subscriptionId }) => deliveryIdOf(eventKeyOf(event), subscriptionId)],
  subscription_id: ['bigint', ({ subscriptionId }) => subscriptionId],
  payload_id: ['uuid', ({ payloadId }) => payloadId],
  trigger: ['text', ({ event }) => event.trigger],
  topic: ['text', ({ topic }) => topic],
  is_test: ['boolean', ({ isTest }) => isTest],
  bytes: ['integer', ({ body }) => body.length],
});

// All bodies are one bytea value, because the driver would write an array as hexadecimal digits.
//
// A delivery is due at the time of the statement, which is after the lock of the queues. The time of the transaction
// may be much earlier, perhaps before the read cursor of the queue. Then the dispatcher would skip the delivery.
//
// If a redaction has removed a stored body, the new body replaces it, because it was shaped without the customer.
//
// A ready queue stays ready. A queue whose endpoint has an open circuit is ready at the time of the probe. But if this
// queue was empty, it is ready now, because its oldest delivery follows its own schedule.
function insertStatement(
  deliveries: readonly Row[],
  bodies: readonly Row[],
  { offsetMs, isRetry = false }: { offsetMs: number; isRetry?: boolean },
): Sql {
  const offset = param(offsetMs);
  const retry = param(isRetry);
  return sql`
with stored as (
  insert into payloads (shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent, is_test, body)
  select shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent, is_test,
         substring(${Buffer.concat(bodies.map(({ body }) => body))}::bytea
                   from (sum(bytes) over (order by n) - bytes)::integer + 1 for bytes)
    from ${bodyRows('body', bodies, 'n')}
  on conflict (shop_id, id) do update set body = excluded.body where payloads.body is null
  returning shop_id, id
), input as materialized (
  select * from ${deliveryRows('delivery', deliveries)}
), added as (
  insert into deliveries (shop_id, id, subscription_id, payload_id, trigger, topic, is_test)
  select shop_id, id, subscription_id, payload_id, trigger, topic, is_test from input
  on conflict (shop_id, id) do nothing
  returning shop_id, id, subscription_id
), queued as (
  insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
  select input.shop_id, input.subscription_id, input.id, input.payload_id, input.bytes, ${retry}::boolean,
         statement_timestamp() + ${offset} * interval '1 ms', statement_timestamp() + ${offset} * interval '1 ms',
         case when ${retry}::boolean then statement_timestamp() + ${offset} * interval '1 ms' end
    from input join added on added.shop_id = input.shop_id and added.id = input.id
  returning shop_id, id, payload_id, queued_at
), marked as (
  update subscription_queues sq set ready_at = statement_timestamp() + ${offset} * interval '1 ms'
    from (select distinct shop_id, subscription_id from added) a, endpoints e
   where sq.shop_id = a.shop_id and sq.subscription_id = a.subscription_id
     and sq.is_open and sq.expire_before is null
     and e.shop_id = sq.shop_id and e.id = sq.endpoint_id
     and (sq.ready_at is null or (sq.ready_at > statement_timestamp() + ${offset} * interval '1 ms' and
            (e.held_until is null or e.held_until <= statement_timestamp() + ${offset} * interval '1 ms')))
)
select q.id, q.queued_at::text as round, extract(epoch from q.queued_at)::float8 * 1000 as "queuedAtMs",
       exists (select from stored s where s.shop_id = q.shop_id and s.id = q.payload_id) as "isOwnBody"
  from queued q`;
}
