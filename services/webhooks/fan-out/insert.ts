import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, param, rowsOf, type Sql, sql } from '../../platform/sql.ts';
import { deliveryIdOf, type EventKey, payloadIdOf } from '../delivery-id.ts';

/** One event for one subscription, with its body. */
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
  /** Whether the given body was stored. Otherwise an earlier one exists and is used, because it may have been sent. */
  readonly isOwnBody: boolean;
}

/** The parts of the ids of an event's deliveries. */
export function eventKeyOf({ eventId, occurredAt }: Event): EventKey {
  return { eventId, occurredAt: occurredAt ? timestampDate(occurredAt) : new Date(0) };
}

/**
 * Stores bodies and deliveries, due at once, and marks their queues ready. Deliveries that exist already, finished or
 * waiting, stay unchanged. The caller has locked the queues.
 *
 * @param o.offsetMs of the retry clock.
 * @param o.isRetry whether they are sent after fresh deliveries.
 * @returns the new deliveries.
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

/** A delivery with the id of its body. */
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

// The bodies come as one value, because the driver sends it as bytes; it would write an array as hexadecimal digits.
// Deliveries are due by the time of the statement, after the queues were locked. The transaction may have started long
// before, and a read that continues where the last one ended would skip them. A body that a redaction has emptied is
// stored again without the customer, because it was shaped so. A ready queue stays ready. A queue with an open circuit
// is ready at the time of its probe. If it is empty, it is ready now, because its oldest delivery follows its own
// schedule.
function insertStatement(
  deliveries: readonly Row[],
  bodies: readonly Row[],
  { offsetMs, isRetry = false }: { offsetMs: number; isRetry?: boolean },
): Sql {
  const offset = param(offsetMs);
  const retry = param(isRetry);
  return sql`
with stored as (
  insert into payloads (shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent, body)
  select shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent,
         substring(${Buffer.concat(bodies.map(({ body }) => body))}::bytea
                   from (sum(bytes) over (order by n) - bytes)::integer + 1 for bytes)
    from ${bodyRows('u', bodies, 'n')}
  on conflict (shop_id, id) do update set body = excluded.body where payloads.body is null
  returning shop_id, id
), given as materialized (
  select * from ${deliveryRows('g', deliveries)}
), added as (
  insert into deliveries (shop_id, id, subscription_id, payload_id, trigger, topic, is_test)
  select shop_id, id, subscription_id, payload_id, trigger, topic, is_test from given
  on conflict (shop_id, id) do nothing
  returning shop_id, id, subscription_id
), queued as (
  insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
  select g.shop_id, g.subscription_id, g.id, g.payload_id, g.bytes, ${retry}::boolean, statement_timestamp() + ${offset} * interval '1 ms',
         statement_timestamp() + ${offset} * interval '1 ms',
         case when ${retry}::boolean then statement_timestamp() + ${offset} * interval '1 ms' end
    from given g join added a on a.shop_id = g.shop_id and a.id = g.id
  returning shop_id, id, payload_id, queued_at
), marked as (
  update subscription_queues l set ready_at = statement_timestamp() + ${offset} * interval '1 ms'
    from (select distinct shop_id, subscription_id from added) a, endpoints e
   where l.shop_id = a.shop_id and l.subscription_id = a.subscription_id
     and l.is_open and l.expire_before is null
     and e.shop_id = l.shop_id and e.id = l.endpoint_id
     and (l.ready_at is null or (l.ready_at > statement_timestamp() + ${offset} * interval '1 ms' and
            (e.held_until is null or e.held_until <= statement_timestamp() + ${offset} * interval '1 ms')))
)
select q.id, q.queued_at::text as round, extract(epoch from q.queued_at)::float8 * 1000 as "queuedAtMs",
       exists (select from stored s where s.shop_id = q.shop_id and s.id = q.payload_id) as "isOwnBody"
  from queued q`;
}
