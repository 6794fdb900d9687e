import { join } from 'node:path';
import { fromBinary, toJson } from '@bufbuild/protobuf';
import { EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { type EventBus, eventsTopic } from '../../services/platform/bus/event-bus.ts';
import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { createKafkaBus } from '../../services/platform/kafka/kafka.ts';
import { busShape, loadConfig } from '../../services/platform/process/config.ts';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import { startKafka } from './kafka/start.ts';
import type { Plan, Stopper } from './plan.ts';

/**
 * The consumer groups and their topics. The services start one after another, so events that are published before a
 * consumer starts are kept for it.
 */
const LISTENERS = [
  { group: 'webhooks', topics: [eventsTopic('returns')] },
  { group: 'returns', topics: [eventsTopic('fraud')] },
  { group: 'gateway', topics: [eventsTopic('webhooks')] },
];

/** Maximum number of stored events; the oldest are dropped. */
const MAX_EVENTS = 20_000;

/** The event bus of the stack. It stores the published events for `GET /events` of the control server. */
export interface LocalBus extends Stopper {
  readonly bus: EventBus;
  /** Null without a broker. */
  readonly brokers: readonly string[] | null;
  /** The events published after this position, oldest first. */
  since(position: number): readonly StoredEvent[];
}

/** A published event, as the control server returns it. */
export interface StoredEvent {
  /** Grows by one per event; the value for `after`. */
  readonly position: number;
  readonly topic: string;
  readonly key: string;
  readonly event: unknown;
}

/** Starts the bus: in the process or, with `--kafka`, on the brokers of KAFKA_BROKERS, else on a local broker. */
export async function startBus(plan: Plan, report: (text: string) => void): Promise<LocalBus> {
  if (!plan.options.kafka) {
    const bus = createInProcessBus({ groups: LISTENERS });
    return { ...storing(bus), brokers: null, stop: () => bus.close() };
  }
  const { kafkaBrokers, logLevel } = plan.externalSystems;
  const own =
    kafkaBrokers.length > 0
      ? undefined
      : await startKafka({
          folder: join(plan.folder, 'kafka'),
          port: plan.ports.kafka,
          onProgress: report,
        });
  const brokers = own?.brokers ?? kafkaBrokers;
  const logger = createLogger({ service: 'kafka', level: logLevel, pretty: true });
  const { RETENTION_DAYS } = loadConfig({ RETENTION_DAYS: busShape.RETENTION_DAYS }, {});
  const about = { clientId: 'local-stack', logger, retentionDays: RETENTION_DAYS };
  const bus = createKafkaBus({ brokers, ...about });
  return {
    ...storing(bus),
    brokers,
    async stop() {
      await bus.close();
      await own?.stop();
    },
  };
}

/** Stores what is published on the bus. */
function storing(bus: EventBus): Pick<LocalBus, 'bus' | 'since'> {
  // Stored as bytes; as JSON, thousands of events would need several times the memory.
  const events: (Omit<StoredEvent, 'event'> & { readonly value: Uint8Array })[] = [];
  let position = 0;
  return {
    bus: {
      ...bus,
      async publish(topic, records) {
        await bus.publish(topic, records);
        for (const { key, value } of records) {
          position += 1;
          events.push({ position, topic, key, value });
        }
        if (events.length > MAX_EVENTS) events.splice(0, events.length - MAX_EVENTS);
      },
    },
    since: (after) =>
      events
        .filter((event) => event.position > after)
        .map(({ value, ...about }) => ({
          ...about,
          event: toJson(EventSchema, fromBinary(EventSchema, value)),
        })),
  };
}
