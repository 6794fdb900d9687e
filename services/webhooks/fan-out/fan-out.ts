import { randomUUID } from 'node:crypto';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { newestActive, payloadVersionServed } from '../../contract/versions.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { payloadVersions } from '../subscriptions/payload-version.ts';
import { shapeBody } from './shape.ts';

/** One event on its way to one subscription, with the bytes it will bring. */
export interface NewDelivery {
  readonly event: Event;
  readonly subscriptionId: bigint;
  readonly endpointId: bigint;
  readonly topic: string;
  readonly version: string;
  readonly body: Uint8Array;
  readonly isTest: boolean;
}

interface Match {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly topic: string;
  readonly trigger: string;
  readonly endpointId: bigint;
}

/**
 * Writes a delivery for every active subscription that waits for one of the events; a repeated
 * event adds none. Payloads are shaped here, once, for the version the shop has set.
 *
 * @returns how many deliveries were written.
 */
export async function fanOut(
  tx: Queryable,
  events: readonly Event[],
  o: { today: Date; offsetMs: number },
): Promise<number> {
  if (events.length === 0) return 0;
  const matches = await lockMatches(tx, events);
  if (matches.length === 0) return 0;
  const versions = await payloadVersions(tx, [...new Set(matches.map((match) => match.shopId))]);
  const redacted = await redactedAmong(tx, events);
  const shape = shapeOnce();
  const deliveries = events.flatMap((event) =>
    matches
      .filter((match) => isFor(match, event))
      .flatMap((match): NewDelivery[] => {
        const stored = versions.get(event.shopId) ?? newestActive(o.today);
        const { version } = payloadVersionServed(stored, o.today);
        const isRedacted = redacted.has(keyOf(event));
        const body = shape(event, { topic: match.topic, version, isRedacted });
        if (!body) return [];
        const { id: subscriptionId, endpointId, topic } = match;
        return [{ event, subscriptionId, endpointId, topic, version, body, isTest: false }];
      }),
  );
  return (await insertDeliveries(tx, deliveries, o.offsetMs)).length;
}

/**
 * The active subscriptions of the events' shops and triggers, locked until the deliveries are
 * committed: one that is set inactive or deleted meanwhile would otherwise miss them.
 */
async function lockMatches(tx: Queryable, events: readonly Event[]): Promise<Match[]> {
  const { rows } = await tx.query<Match>(
    `select s.shop_id as "shopId", s.id, s.topic, s.trigger, s.endpoint_id as "endpointId"
       from subscriptions s
       join (select distinct shop_id, trigger from unnest($1::bigint[], $2::text[]) as g (shop_id, trigger)) as wanted
         on wanted.shop_id = s.shop_id and wanted.trigger = s.trigger
      where s.deleted_at is null and s.status = 'active'
      order by s.shop_id, s.id
        for share of s`,
    [events.map((event) => event.shopId), events.map((event) => event.trigger)],
  );
  return rows;
}

function isFor(match: Match, event: Event): boolean {
  return match.shopId === event.shopId && match.trigger === event.trigger;
}

async function redactedAmong(tx: Queryable, events: readonly Event[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ shopId: bigint; returnId: bigint }>(
    `select r.shop_id as "shopId", r.return_id as "returnId" from redacted_returns r
       join (select distinct shop_id, return_id from unnest($1::bigint[], $2::bigint[]) as g (shop_id, return_id)) as given
         on given.shop_id = r.shop_id and given.return_id = r.return_id`,
    [events.map((event) => event.shopId), events.map((event) => event.returnId)],
  );
  return new Set(rows.map(keyOf));
}

function keyOf(o: { shopId: bigint; returnId: bigint }): string {
  return `${o.shopId}:${o.returnId}`;
}

/** Several subscriptions to one topic share one body. */
function shapeOnce(): typeof shapeBody {
  const shaped = new Map<string, Uint8Array | undefined>();
  return (event, o) => {
    const key = `${event.eventId} ${o.topic} ${o.version}`;
    if (!shaped.has(key)) shaped.set(key, shapeBody(event, o));
    return shaped.get(key);
  };
}

/** Stores bodies and deliveries, due at once. Returns the ids of those that are new. */
export async function insertDeliveries(
  tx: Queryable,
  deliveries: readonly NewDelivery[],
  offsetMs: number,
): Promise<string[]> {
  if (deliveries.length === 0) return [];
  const { rows } = await tx.query<{ id: string }>(INSERT, [
    deliveries.map((d) => d.event.shopId),
    deliveries.map(() => randomUUID()),
    deliveries.map((d) => d.subscriptionId),
    deliveries.map((d) => d.endpointId),
    deliveries.map((d) => d.event.eventId),
    deliveries.map((d) => d.event.trigger),
    deliveries.map((d) => d.topic),
    deliveries.map((d) => d.version),
    deliveries.map((d) => d.event.returnId || null),
    deliveries.map((d) => d.event.revision),
    deliveries.map((d) => d.event.traceparent),
    deliveries.map((d) => d.isTest),
    await insertPayloads(tx, deliveries),
    offsetMs,
  ]);
  return rows.map((row) => row.id);
}

const INSERT = `
insert into deliveries (shop_id, id, subscription_id, endpoint_id, event_id, trigger, topic, api_version,
  return_id, revision, traceparent, is_test, payload_id, next_attempt_at)
select g.shop_id, g.id, g.subscription_id, g.endpoint_id, g.event_id, g.trigger, g.topic, g.api_version,
  g.return_id, g.revision, g.traceparent, g.is_test, g.payload_id, now() + $14 * interval '1 ms'
from unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::text[],
  $9::bigint[], $10::bigint[], $11::text[], $12::boolean[], $13::bigint[]) with ordinality
  as g (shop_id, id, subscription_id, endpoint_id, event_id, trigger, topic, api_version,
        return_id, revision, traceparent, is_test, payload_id, n)
order by g.n
on conflict (shop_id, event_id, subscription_id) do nothing
returning id`;

/** The payload ids of the deliveries, in their order. */
async function insertPayloads(
  tx: Queryable,
  deliveries: readonly NewDelivery[],
): Promise<bigint[]> {
  const unique = [
    ...new Map(deliveries.map((delivery) => [payloadKey(delivery), delivery])).values(),
  ];
  const { rows } = await tx.query<PayloadRow>(
    `insert into payloads (shop_id, event_id, topic, api_version, return_id, body)
     select * from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bytea[])
     on conflict (shop_id, event_id, topic, api_version) do update set topic = excluded.topic
     returning id, shop_id as "shopId", event_id as "eventId", topic, api_version as version`,
    [
      unique.map((d) => d.event.shopId),
      unique.map((d) => d.event.eventId),
      unique.map((d) => d.topic),
      unique.map((d) => d.version),
      unique.map((d) => d.event.returnId || null),
      unique.map((d) => d.body),
    ],
  );
  const ids = new Map(rows.map((row) => [payloadKey({ ...row, event: row }), row.id]));
  return deliveries.map((delivery) => ids.get(payloadKey(delivery)) ?? 0n);
}

interface PayloadRow {
  readonly id: bigint;
  readonly shopId: bigint;
  readonly eventId: string;
  readonly topic: string;
  readonly version: string;
}

function payloadKey(d: {
  event: { shopId: bigint; eventId: string };
  topic: string;
  version: string;
}): string {
  return `${d.event.shopId} ${d.event.eventId} ${d.topic} ${d.version}`;
}
