import type { Counter } from '@opentelemetry/api';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { newestActive, payloadVersionServed } from '../../contract/versions.ts';
import { TRIGGERS } from '../../contract/vocabulary.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';
import { consumeEvents } from '../../platform/consumer/consumer.ts';
import {
  afterCommit,
  committing,
  type Queryable,
  together,
} from '../../platform/postgres/postgres.ts';
import { named, rowsOf, type Sql, sql } from '../../platform/postgres/sql.ts';
import type { ServiceRuntime } from '../../platform/process/service.ts';
import type { Worker } from '../../platform/process/worker.ts';
import type { RetryClock } from '../delivery/attempt/retry-schedule.ts';
import { notifyDue } from '../delivery/queue/notify.ts';
import { type QueueRef, queueKeyOf } from '../delivery/queue/queue-ref.ts';
import type { Due } from '../delivery/queue/read-due.ts';
import {
  type FreshDeliveries,
  findTargets,
  shopTriggerRows,
  type Target,
} from '../delivery/queue/targets.ts';
import { deliveryIdOf, payloadIdOf } from '../delivery-id.ts';
import { eventKeyOf, insertDeliveries, type NewDelivery, type QueuedDelivery } from './insert.ts';
import { redactReturns } from './redact.ts';
import { shapeBody } from './shape.ts';
import { lockShops } from './shop-locks.ts';
import { inPartsWithSnapshots, type ReadSnapshot } from './snapshots.ts';

const TRIGGER_NAMES: ReadonlySet<string> = new Set(TRIGGERS);

interface FanOutOptions extends ServiceRuntime {
  readonly clock: RetryClock;
  /** The current day of the version calendar. */
  readonly today: () => Date;
  readonly readSnapshot: ReadSnapshot;
  /** The shards for which this process sends. For queues of other shards, the commit notifies the other processes. */
  readonly ownedShards: () => readonly number[];
  /**
   * Called after a commit, with the queues that have due work, and with the deliveries that need not be read from the
   * table.
   */
  readonly onCommitted: (queues: readonly Match[], fresh: readonly FreshDeliveries[]) => void;
  /** See `consumeEvents` (tests). */
  readonly recordPausesMs?: readonly number[];
}

/**
 * Listens to the events of returns, which are the only source of webhook triggers. Writes the deliveries of each event
 * in the transaction that marks the event as handled. The dispatcher then sends them. A snapshot that is too large for
 * its event is read from the returns service before the transaction.
 */
export function startConsuming(o: FanOutOptions): Promise<Worker> {
  const fannedOut = o.telemetry.meter.createCounter('webhooks.fanned_out', {
    description: 'Deliveries written',
  });
  const skipped = o.telemetry.meter.createCounter('webhooks.events.skipped', {
    description: 'Events with a trigger that no webhook can have',
  });
  return consumeEvents<Locked | undefined>({
    ...o,
    group: 'webhooks',
    topics: [eventsTopic('returns')],
    inParts: inPartsWithSnapshots(o.pool, o.readSnapshot),
    async lock(tx, events) {
      return events.some(isRedaction) ? undefined : lockFor(tx, events, o.ownedShards());
    },
    async handle(tx, events, lockedBefore) {
      const unknown = events.filter((event) => !isKnown(event) && !isRedaction(event));
      if (unknown.length > 0) skipped.add(unknown.length);
      const locked = lockedBefore ?? (await redactAndLock(tx, events, o.ownedShards()));
      await write(tx, events.filter(isKnown), { ...o, locked, fannedOut });
    },
  });
}

/** Queues that are locked until the commit, and the values that were read with the lock. */
interface Locked {
  readonly queues: readonly Match[];
  readonly targets: readonly Target[];
  readonly ownedShards: readonly number[];
}

/** Locks all rows in a fixed order, so that two batches cannot deadlock. */
async function lockFor(
  tx: Queryable,
  events: readonly Event[],
  ownedShards: readonly number[],
): Promise<Locked> {
  const known = events.filter(isKnown);
  const [, queues, targets] = await together(tx, () =>
    Promise.all([
      lockShops(tx, { fannedOut: events.map((event) => event.shopId), redacted: [] }),
      lockQueues(tx, known),
      findTargets(tx, pairsOf(known), ownedShards),
    ]),
  );
  return { queues, targets, ownedShards };
}

async function redactAndLock(
  tx: Queryable,
  events: readonly Event[],
  ownedShards: readonly number[],
): Promise<Locked> {
  const redactions = events.filter(isRedaction);
  await lockShops(tx, {
    fannedOut: events.map((event) => event.shopId),
    redacted: redactions.map((event) => event.shopId),
  });
  for (const { shopId, detail } of redactions) {
    if (detail.case === 'customerRedacted') {
      await redactReturns(tx, shopId, detail.value.returnIds);
    }
  }
  return lockFor(tx, events, ownedShards);
}

/** Writes the deliveries of the events, and commits. Passes the deliveries to the dispatcher. */
async function write(
  tx: Queryable,
  events: readonly Event[],
  o: FanOutOptions & { readonly locked: Locked; readonly fannedOut: Counter },
): Promise<void> {
  const { queues, targets, ownedShards } = o.locked;
  const due = queues.filter((queue) => events.some((event) => isFor(queue, event)));
  const elsewhere = due.filter((queue) => !ownedShards.includes(queue.shard));
  // Shape the bodies before `committing`, which would commit even if this failed. Then the events would count as handled
  // without their deliveries.
  const deliveries = deliveriesOf(events, due, o.today());
  const offsetMs = o.clock.offsetMs();
  const [{ written, fresh }] = await committing(tx, () =>
    Promise.all([
      fanOut(tx, deliveries, { offsetMs, targets }),
      notifyDue(tx, elsewhere, { isChange: false }),
    ]),
  );
  if (written > 0) o.fannedOut.add(written);
  afterCommit(tx, () => o.onCommitted(due, fresh));
}

function isKnown(event: Event): boolean {
  return TRIGGER_NAMES.has(event.trigger);
}

function isRedaction(event: Event): boolean {
  return event.detail.case === 'customerRedacted';
}

/** A queue that gets deliveries of the events, with its topic and trigger. */
interface Match extends QueueRef {
  readonly topic: string;
  readonly trigger: string;
  readonly shard: number;
  /** The payload version that the shop has chosen; null when it has chosen none. */
  readonly version: string | null;
  /** Keys of those returns of the events whose customer was redacted. The list is the same for all queues. */
  readonly redacted: readonly string[];
}

interface FannedOut {
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
function pairsOf(events: readonly Event[]): readonly Event[] {
  return [...new Map(events.map((event) => [`${event.shopId} ${event.trigger}`, event])).values()];
}

function isFor(match: Match, event: Event): boolean {
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
