import { hostname } from 'node:os';
import type { busShape, processShape, Settings } from '../config.ts';
import { createLogger } from '../log.ts';
import type { EventBus } from './event-bus.ts';
import { createKafkaBus } from './kafka.ts';
import { securityFromConfig } from './kafka-security.ts';

type BusConfig = Settings<typeof busShape> &
  Pick<Settings<typeof processShape>, 'LOG_LEVEL' | 'LOG_PRETTY'>;

/** Creates the Kafka bus that the environment variables configure. */
export function kafkaBusFromConfig(o: BusConfig): EventBus {
  return createKafkaBus({
    brokers: o.KAFKA_BROKERS,
    clientId: hostname(),
    logger: createLogger({ service: 'bus', level: o.LOG_LEVEL, pretty: o.LOG_PRETTY }),
    retentionDays: o.RETENTION_DAYS,
    createsTopics: o.KAFKA_TOPICS === 'create',
    security: securityFromConfig(o),
  });
}
