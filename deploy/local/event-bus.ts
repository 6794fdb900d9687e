import { join } from 'node:path';
import { type EventBus, eventsTopic } from '../../services/platform/bus/event-bus.ts';
import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { createKafkaBus } from '../../services/platform/bus/kafka.ts';
import { createLogger } from '../../services/platform/log.ts';
import { startKafka } from './kafka/start.ts';

/**
 * The consumer groups and their topics. The services start one after another, so events that are published before a
 * consumer starts are kept for it.
 */
const LISTENERS = [
  { group: 'webhooks', topics: [eventsTopic('returns')] },
  { group: 'returns', topics: [eventsTopic('fraud')] },
];

export interface LocalBus {
  readonly bus: EventBus;
  /** Null without a broker. */
  readonly brokers: readonly string[] | null;
  stop(): Promise<void>;
}

/**
 * Starts the event bus of the stack: in the process or, with `kafka`, on the brokers of KAFKA_BROKERS, else on a local
 * broker.
 */
export async function startBus(o: {
  readonly kafka: boolean;
  readonly brokers: readonly string[];
  readonly folder: string;
  readonly port: number;
  readonly logLevel: string;
  readonly progress: (text: string) => void;
}): Promise<LocalBus> {
  if (!o.kafka) {
    const bus = createInProcessBus({ groups: LISTENERS });
    return { bus, brokers: null, stop: () => bus.close() };
  }
  const own =
    o.brokers.length > 0
      ? undefined
      : await startKafka({ folder: join(o.folder, 'kafka'), port: o.port, onProgress: o.progress });
  const brokers = own?.brokers ?? o.brokers;
  const logger = createLogger({ service: 'kafka', level: o.logLevel, pretty: true });
  const bus = createKafkaBus({ brokers, clientId: 'local-stack', logger });
  return {
    bus,
    brokers,
    async stop() {
      await bus.close();
      await own?.stop();
    },
  };
}
