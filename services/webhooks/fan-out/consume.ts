import type pg from 'pg';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { TRIGGERS } from '../../contract/limits.ts';
import { type EventBus, eventsTopic } from '../../platform/bus/event-bus.ts';
import { consumeEvents } from '../../platform/consumer.ts';
import type { ServiceRuntime } from '../../platform/service.ts';
import type { Worker } from '../../platform/worker.ts';
import type { RetryClock } from '../delivery/retry-clock.ts';
import { fanOut } from './fan-out.ts';
import { redactReturns } from './redact.ts';
import { type ReadSnapshot, withSnapshots } from './snapshots.ts';

const TRIGGER_NAMES: ReadonlySet<string> = new Set(TRIGGERS);

export interface ConsumeOptions extends ServiceRuntime {
  readonly clock: RetryClock;
  /** Today in the version calendar. */
  readonly today: () => Date;
  readonly readSnapshot: ReadSnapshot;
  /** Called after a batch was committed. */
  readonly onCommitted: () => void;
}

/**
 * Listens to returns, the only source of webhook triggers, and fans each event out in the
 * transaction that marks it as seen. No HTTP here: what is written is delivered by the dispatcher.
 * Returns is asked inside it, for snapshots only, and so answers for at most ten seconds each.
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
    bus: announcing(o),
    group: 'webhooks',
    topics: [eventsTopic('returns')],
    async handle(tx, events) {
      await redact(tx, events);
      const known = events.filter((event) => TRIGGER_NAMES.has(event.trigger));
      const strange = events.filter((event) => !known.includes(event) && !isRedaction(event));
      if (strange.length > 0) skipped.add(strange.length);
      const today = o.today();
      for await (const part of withSnapshots(tx, known, o.readSnapshot)) {
        const written = await fanOut(tx, part, { today, offsetMs: o.clock.offsetMs() });
        if (written > 0) fannedOut.add(written);
      }
    },
  });
}

async function redact(tx: pg.PoolClient, events: readonly Event[]): Promise<void> {
  for (const { shopId, detail } of events) {
    if (detail.case === 'customerRedacted') {
      await redactReturns(tx, shopId, detail.value.returnIds);
    }
  }
}

function isRedaction(event: Event): boolean {
  return event.detail.case === 'customerRedacted';
}

/** The bus as the consumer sees it: the dispatcher is told after a batch was committed. */
function announcing(o: ConsumeOptions): EventBus {
  return {
    publish: (topic, records) => o.bus.publish(topic, records),
    health: () => o.bus.health(),
    close: () => o.bus.close(),
    subscribe: (subscription) =>
      o.bus.subscribe({
        ...subscription,
        async handle(records) {
          await subscription.handle(records);
          o.onCommitted();
        },
      }),
  };
}
