import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { deliveryIdOf, type EventKey, payloadIdOf } from '../delivery-id.ts';

/** One event on its way to one subscription, with the bytes it will bring. */
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
  /** The body was stored with it. Otherwise one was there, which counts: it may have been sent. */
  readonly isOwnBody: boolean;
}

/** What the ids of an event's deliveries are made from. */
export function eventKeyOf({ eventId, occurredAt }: Event): EventKey {
  return { eventId, occurredAt: occurredAt ? timestampDate(occurredAt) : new Date(0) };
}

/**
 * Stores bodies and deliveries, due at once, and has their queues looked at. What was delivered to a
 * subscription before, or waits for it, is left as it is. The caller has locked the queues.
 *
 * @param o.offsetMs of the retry clock.
 * @param o.isRetry to be sent after what is fresh.
 * @returns those that are new.
 */
export async function insertDeliveries(
  tx: Queryable,
  deliveries: readonly NewDelivery[],
  o: { offsetMs: number; isRetry?: boolean },
): Promise<QueuedDelivery[]> {
  if (deliveries.length === 0) return [];
  const payloads = new Map<string, NewDelivery & { readonly id: string }>();
  const payloadIds = deliveries.map((delivery) => {
    const id = payloadIdOf(eventKeyOf(delivery.event), delivery.topic, delivery.version);
    payloads.set(`${delivery.event.shopId} ${id}`, { ...delivery, id });
    return id;
  });
  const bodies = [...payloads.values()];
  const { rows } = await tx.query<QueuedDelivery>({
    name: 'insert-deliveries',
    text: INSERT,
    values: [
      deliveries.map((d) => d.event.shopId),
      deliveries.map((d) => deliveryIdOf(eventKeyOf(d.event), d.subscriptionId)),
      deliveries.map((d) => d.subscriptionId),
      payloadIds,
      deliveries.map((d) => d.event.trigger),
      deliveries.map((d) => d.topic),
      deliveries.map((d) => d.isTest),
      deliveries.map((d) => d.body.length),
      o.offsetMs,
      bodies.map((d) => d.event.shopId),
      bodies.map((d) => d.id),
      bodies.map((d) => d.event.eventId),
      bodies.map((d) => d.event.trigger),
      bodies.map((d) => d.topic),
      bodies.map((d) => d.version),
      bodies.map((d) => d.event.returnId || null),
      bodies.map((d) => d.event.revision),
      bodies.map((d) => d.event.traceparent),
      Buffer.concat(bodies.map((d) => d.body)),
      o.isRetry ?? false,
      bodies.map((d) => d.body.length),
    ],
  });
  return rows;
}

// The bodies come as one value, which the driver sends as bytes; of an array it would make hexadecimal digits.
// Due by the time of the statement, after the queues were locked, not of the transaction, which may have
// waited long for them: who reads a queue goes on where the last reading ended, and would pass over it.
// A body that was emptied by a redaction comes back without the customer: it was shaped so.
// A queue that is ready already stays so. One whose circuit holds back what waits is looked at when its
// probe is due, unless nothing waits: the oldest of all is sent by its own schedule.
const INSERT = `
with stored as (
  insert into payloads (shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent, body)
  select shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent,
         substring($19::bytea from (sum(bytes) over (order by n) - bytes)::integer + 1 for bytes)
    from unnest($10::bigint[], $11::uuid[], $12::uuid[], $13::text[], $14::text[], $15::text[], $16::bigint[],
      $17::bigint[], $18::text[], $21::integer[])
      with ordinality as u (shop_id, id, event_id, trigger, topic, api_version, return_id, revision, traceparent, bytes, n)
  on conflict (shop_id, id) do update set body = excluded.body where payloads.body is null
  returning shop_id, id
), given as materialized (
  select * from unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::boolean[],
    $8::integer[]) as g (shop_id, id, subscription_id, payload_id, trigger, topic, is_test, bytes)
), added as (
  insert into deliveries (shop_id, id, subscription_id, payload_id, trigger, topic, is_test)
  select shop_id, id, subscription_id, payload_id, trigger, topic, is_test from given
  on conflict (shop_id, id) do nothing
  returning shop_id, id, subscription_id
), queued as (
  insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
  select g.shop_id, g.subscription_id, g.id, g.payload_id, g.bytes, $20::boolean, statement_timestamp() + $9 * interval '1 ms',
         statement_timestamp() + $9 * interval '1 ms',
         case when $20::boolean then statement_timestamp() + $9 * interval '1 ms' end
    from given g join added a on a.shop_id = g.shop_id and a.id = g.id
  returning shop_id, id, payload_id, queued_at
), marked as (
  update subscription_queues l set ready_at = statement_timestamp() + $9 * interval '1 ms'
    from (select distinct shop_id, subscription_id from added) a, endpoints e
   where l.shop_id = a.shop_id and l.subscription_id = a.subscription_id
     and l.is_open and l.expire_before is null
     and e.shop_id = l.shop_id and e.id = l.endpoint_id
     and (l.ready_at is null or (l.ready_at > statement_timestamp() + $9 * interval '1 ms' and
            (e.held_until is null or e.held_until <= statement_timestamp() + $9 * interval '1 ms')))
)
select q.id, q.queued_at::text as round, extract(epoch from q.queued_at)::float8 * 1000 as "queuedAtMs",
       exists (select from stored s where s.shop_id = q.shop_id and s.id = q.payload_id) as "isOwnBody"
  from queued q`;
