import type { Counter } from '@opentelemetry/api';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { TRIGGERS } from '../../contract/vocabulary.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';
import { consumeEvents } from '../../platform/consumer.ts';
import { afterCommit, committing, type Queryable, together } from '../../platform/postgres.ts';
import type { ServiceRuntime } from '../../platform/service.ts';
import type { Worker } from '../../platform/worker.ts';
import type { RetryClock } from '../delivery/attempt/retry-clock.ts';
import { notifyDue } from '../delivery/queue/notify.ts';
import { type FreshDeliveries, findTargets, type Target } from '../delivery/queue/targets.ts';
import { deliveriesOf, fanOut, isFor, lockQueues, type Match, pairsOf } from './fan-out.ts';
import { redactReturns } from './redact.ts';
import { lockShops } from './shop-locks.ts';
import { inPartsWithSnapshots, type ReadSnapshot } from './snapshots.ts';

const TRIGGER_NAMES: ReadonlySet<string> = new Set(TRIGGERS);

export interface FanOutOptions extends ServiceRuntime {
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
