import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { TRIGGERS } from '../../contract/limits.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';
import { consumeEvents } from '../../platform/consumer.ts';
import { afterCommit } from '../../platform/postgres.ts';
import type { ServiceRuntime } from '../../platform/service.ts';
import type { Worker } from '../../platform/worker.ts';
import type { RetryClock } from '../delivery/attempt/retry-clock.ts';
import { notifyDue } from '../delivery/queue/notify.ts';
import type { QueueRef } from '../delivery/queue/queue-ref.ts';
import { fanOut, lockQueues } from './fan-out.ts';
import { redactReturns } from './redact.ts';
import { lockShops } from './shop-locks.ts';
import { type ReadSnapshot, readAhead, withSnapshots } from './snapshots.ts';

const TRIGGER_NAMES: ReadonlySet<string> = new Set(TRIGGERS);

export interface ConsumeOptions extends ServiceRuntime {
  readonly clock: RetryClock;
  /** Today in the version calendar. */
  readonly today: () => Date;
  readonly readSnapshot: ReadSnapshot;
  /** Whether this process sends for the shard; others are notified by the database. */
  readonly holds: (shard: number) => boolean;
  /** Called after a commit with the queues where something is due now. */
  readonly onCommitted: (queues: readonly QueueRef[]) => void;
  /** See `consumeEvents` (tests). */
  readonly recordPausesMs?: readonly number[];
}

/**
 * Listens to returns, the only source of webhook triggers, and fans each event out in the
 * transaction that marks it as seen. The dispatcher delivers what is written. Snapshots that are too large
 * for an event are read from the returns service before the transaction.
 */
export function startConsuming(o: ConsumeOptions): Promise<Worker> {
  const fannedOut = o.telemetry.meter.createCounter('webhooks.fanned_out', {
    description: 'Deliveries written',
  });
  const skipped = o.telemetry.meter.createCounter('webhooks.events.skipped', {
    description: 'Events whose trigger no webhook knows',
  });
  return consumeEvents({
    ...o,
    group: 'webhooks',
    topics: [eventsTopic('returns')],
    prepare: (events) => readAhead(o.pool, events, o.readSnapshot),
    async handle(tx, events) {
      await redact(tx, events);
      const known = events.filter((event) => TRIGGER_NAMES.has(event.trigger));
      const strange = events.filter((event) => !known.includes(event) && !isRedaction(event));
      if (strange.length > 0) skipped.add(strange.length);
      // All at once, in one order: two batches never wait for each other in a ring.
      const open = await lockQueues(tx, known);
      const at = { today: o.today(), offsetMs: o.clock.offsetMs() };
      for await (const part of withSnapshots(tx, known, o.readSnapshot)) {
        const { written, queues } = await fanOut(tx, part, open, at);
        if (written > 0) fannedOut.add(written);
        afterCommit(tx, () => o.onCommitted(queues));
        const elsewhere = queues.filter((queue) => !o.holds(queue.shard));
        await notifyDue(tx, elsewhere, { isChange: false });
      }
    },
  });
}

async function redact(tx: pg.PoolClient, events: readonly Event[]): Promise<void> {
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
}

function isRedaction(event: Event): boolean {
  return event.detail.case === 'customerRedacted';
}
