import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { newestActive, payloadVersionServed } from '../../contract/versions.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../../platform/sql.ts';
import { type QueueRef, queueKeyOf } from '../delivery/queue/queue-ref.ts';
import type { Due } from '../delivery/queue/read-due.ts';
import { type FreshDeliveries, shopTriggerRows, type Target } from '../delivery/queue/targets.ts';
import { deliveryIdOf, payloadIdOf } from '../delivery-id.ts';
import { eventKeyOf, insertDeliveries, type NewDelivery, type QueuedDelivery } from './insert.ts';
import { shapeBody } from './shape.ts';

/** A queue that gets deliveries of the events, with its topic and trigger. */
export interface Match extends QueueRef {
  readonly topic: string;
  readonly trigger: string;
  readonly shard: number;
  /** The payload version that the shop has chosen; null when it has chosen none. */
  readonly version: string | null;
  /** Keys of those returns of the events whose customer was redacted. The list is the same for all queues. */
  readonly redacted: readonly string[];
}

export interface FannedOut {
  readonly written: number;
  /** The new deliveries that may be sent without reading them from the table. */
  readonly fresh: readonly FreshDeliveries[];
}

/**
 * Returns one delivery for each pair of an event and a queue of its shop and trigger. Payloads are shaped once, for the
 * version that the shop has chosen.
 *
 * @param queues the result of {@link lockQueues} in this transaction.
 * @throws Error when an event lacks the data of a topic.
 */
export function deliveriesOf(
  events: readonly Event[],
  queues: readonly Match[],
  today: Date,
): NewDelivery[] {
  const redacted = new Set(queues[0]?.redacted);
  const shape = shapeOnce();
  return events.flatMap((event) =>
    queues
      .filter((queue) => isFor(queue, event))
      .flatMap(({ subscriptionId, topic, version: set }): NewDelivery[] => {
        const { version } = payloadVersionServed(set ?? newestActive(today), today);
        const isRedacted = redacted.has(returnKeyOf(event));
        const body = shape(event, { topic, version, isRedacted });
        return body ? [{ event, subscriptionId, topic, version, body, isTest: false }] : [];
      }),
  );
}

/**
 * Writes the result of {@link deliveriesOf}. A duplicate of an event adds no delivery.
 *
 * @param o.targets targets of the queues from which this process sends.
 */
export async function fanOut(
  tx: Queryable,
  deliveries: readonly NewDelivery[],
  o: { offsetMs: number; targets?: readonly Target[] },
): Promise<FannedOut> {
  const queued = await insertDeliveries(tx, deliveries, { offsetMs: o.offsetMs });
  return { written: queued.length, fresh: freshOf(deliveries, queued, o.targets ?? []) };
}

function freshOf(
  deliveries: readonly NewDelivery[],
  queued: readonly QueuedDelivery[],
  targets: readonly Target[],
): FreshDeliveries[] {
  const byId = new Map(queued.map((one) => [one.id, one]));
  const ofQueue = Map.groupBy(deliveries, ({ event: { shopId }, subscriptionId }) =>
    queueKeyOf({ shopId, subscriptionId }),
  );
  return targets.flatMap((target) => {
    const due = (ofQueue.get(target.key) ?? []).flatMap((delivery) => {
      const stored = byId.get(deliveryIdOf(eventKeyOf(delivery.event), delivery.subscriptionId));
      return stored?.isOwnBody ? [dueOf(delivery, stored, target)] : [];
    });
    return due.length > 0 ? [{ target, deliveries: due }] : [];
  });
}

/** Returns a new delivery in the form in which it would be read from the table. */
function dueOf(delivery: NewDelivery, queued: QueuedDelivery, target: Target): Due {
  const { event, subscriptionId, topic, version, body } = delivery;
  return {
    shopId: event.shopId,
    subscriptionId,
    id: queued.id,
    endpointId: target.endpointId,
    shard: target.shard,
    url: target.url,
    payloadId: payloadIdOf(eventKeyOf(event), topic, version),
    eventId: event.eventId,
    trigger: event.trigger,
    apiVersion: version,
    revision: event.revision,
    traceparent: event.traceparent,
    attempts: 0,
    roundAttempts: 0,
    bytes: body.length,
    dueAtMs: queued.queuedAtMs,
    queuedAtMs: queued.queuedAtMs,
    round: queued.round,
    isRetry: false,
    encryptedSecrets: target.encryptedSecrets,
    isSandbox: target.isSandbox,
    isTest: delivery.isTest,
    isFailing: target.isFailing,
    body: Buffer.from(body.buffer, body.byteOffset, body.length),
  };
}

/**
 * Locks the open queues of the events' shops and triggers until the deliveries are committed. Without the lock, a queue
 * that is closed, moved or unloaded at the same time would miss the deliveries. An inactive subscription has no open
 * queue, so it gets no delivery of these events. Also returns the values on which the bodies depend. The caller must
 * hold the lock of the shops, which excludes redactions.
 */
export async function lockQueues(tx: Queryable, events: readonly Event[]): Promise<Match[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.query<Match>(
    named(
      'lock-queues',
      sql`select sq.shop_id as "shopId", sq.subscription_id as "subscriptionId", sq.topic, sq.trigger, sq.shard,
                 (select v.version from payload_versions v where v.shop_id = sq.shop_id) as version,
                 array(${redactedOf(events)}) as redacted
            from subscription_queues sq
            join ${shopTriggerRows('input', pairsOf(events))}
              on input.shop_id = sq.shop_id and input.trigger = sq.trigger
           where sq.is_open
           order by sq.shop_id, sq.subscription_id
             for no key update of sq`,
    ),
  );
  return rows;
}

/** Returns one event for each pair of shop and trigger. */
export function pairsOf(events: readonly Event[]): readonly Event[] {
  return [...new Map(events.map((event) => [`${event.shopId} ${event.trigger}`, event])).values()];
}

export function isFor(match: Match, event: Event): boolean {
  return match.shopId === event.shopId && match.trigger === event.trigger;
}

const returnRows = rowsOf<Event>({
  shop_id: ['bigint', ({ shopId }) => shopId],
  return_id: ['bigint', ({ returnId }) => returnId],
});

/** SQL for those returns of the events whose customer was redacted. */
const redactedOf = (events: readonly Event[]): Sql => sql`
select r.shop_id || ':' || r.return_id as key from redacted_returns r
  join (select distinct shop_id, return_id from ${returnRows('g', events)}) as input
    on input.shop_id = r.shop_id and input.return_id = r.return_id`;

/** Returns the keys ({@link returnKeyOf}) of those returns of the events whose customer was redacted. */
export async function redactedAmong(tx: Queryable, events: readonly Event[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ key: string }>(named('redacted-among', redactedOf(events)));
  return new Set(rows.map(({ key }) => key));
}

/** Returns the key of a return, as in {@link redactedAmong}. */
export function returnKeyOf(o: { shopId: bigint; returnId: bigint }): string {
  return `${o.shopId}:${o.returnId}`;
}

/** Returns a function that shapes each body only once. Several subscriptions to one topic share a body. */
function shapeOnce(): typeof shapeBody {
  const shaped = new Map<string, Uint8Array | undefined>();
  return (event, o) => {
    const key = `${event.eventId} ${o.topic} ${o.version}`;
    if (!shaped.has(key)) shaped.set(key, shapeBody(event, o));
    return shaped.get(key);
  };
}
