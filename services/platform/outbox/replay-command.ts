import { parseArgs } from 'node:util';
import type pg from 'pg';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import { signaturesFromConfig } from '../bus/event-signature.ts';
import { signingBus } from '../bus/signed-bus.ts';
import { replayPoison } from '../consumer/poison.ts';
import { createKafkaBus } from '../kafka/kafka.ts';
import { securityFromConfig } from '../kafka/security.ts';
import { createPool } from '../postgres/postgres.ts';
import { schemaNamed } from '../postgres/schemas.ts';
import { busShape, databaseShape, loadConfig, processShape } from '../process/config.ts';
import { createLogger } from '../telemetry/log.ts';
import { storedEvents } from './store.ts';

const USAGE = `usage: replay --from <time> [--to <time>]   publish stored events again, by when they were stored
       replay --poison                      try records again that could not be handled`;

/**
 * Runs the replay command of a service, over Kafka. It publishes again the service's events of a time range, or the
 * poison records of its listener. Both may be repeated, because no event has its effect twice.
 *
 * @throws Error with the usage for invalid arguments.
 */
export async function runReplay(service: string, args: readonly string[]): Promise<string> {
  const command = parse(service, args);
  const config = loadConfig({ ...processShape, ...databaseShape, ...busShape });
  const logger = createLogger({ service: `${service}-replay`, level: config.LOG_LEVEL });
  const pool = createPool(config.DATABASE_URL, { max: 2, applicationName: `${service}-replay` });
  const kafka = createKafkaBus({
    brokers: config.KAFKA_BROKERS,
    clientId: `${service}-replay`,
    logger,
    retentionDays: config.RETENTION_DAYS,
    createsTopics: config.KAFKA_TOPICS === 'create',
    security: securityFromConfig(config),
  });
  const bus = signingBus(kafka, signaturesFromConfig(config));
  try {
    if (command === 'poison') {
      return `${await replayPoison({ pool, bus, consumer: service })} record(s) published again`;
    }
    const topic = eventsTopic(service);
    const onProgress = (published: number) => logger.info({ published }, 'replaying');
    const count = await replayEvents({ pool, bus, topic, ...command, onProgress });
    return `${count} event(s) published again`;
  } finally {
    await bus.close();
    await pool.end();
  }
}

function parse(service: string, args: readonly string[]): 'poison' | { from: Date; to: Date } {
  const { values } = parseArgs({
    args: [...args],
    options: { from: { type: 'string' }, to: { type: 'string' }, poison: { type: 'boolean' } },
  });
  const { capabilities } = schemaNamed(service);
  if (values.poison) {
    if (!capabilities.includes('consumer')) throw new Error(`${service} has no listener`);
    return 'poison';
  }
  if (!capabilities.includes('outbox')) throw new Error(`${service} has no outbox`);
  const from = new Date(values.from ?? '');
  const to = values.to === undefined ? new Date() : new Date(values.to);
  if (!(from < to)) throw new Error(USAGE);
  return { from, to };
}

const PAGE = 200;

interface ReplayOptions {
  readonly pool: pg.Pool;
  readonly bus: EventBus;
  readonly topic: string;
  /** Only events that were stored at or after this time. */
  readonly from: Date;
  /** Only events that were stored before this time. */
  readonly to: Date;
  readonly onProgress?: (published: number) => void;
}

/**
 * Publishes stored events again, for a bus that lost its data. Listeners skip events that they have already handled. So
 * the range may be too wide, and the call may be repeated. Returns the number of published events.
 */
export async function replayEvents(o: ReplayOptions): Promise<number> {
  let published = 0;
  let after = 0n;
  for (;;) {
    const events = await storedEvents(o.pool, { from: o.from, to: o.to, after, limit: PAGE });
    const last = events.at(-1);
    if (!last) return published;
    await o.bus.publish(
      o.topic,
      events.map((event) => event.record),
    );
    after = last.position;
    published += events.length;
    o.onProgress?.(published);
  }
}
