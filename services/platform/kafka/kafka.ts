import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, type LogEntry, logLevel } from 'kafkajs';
import type { EventBus } from '../bus/event-bus.ts';
import type { busShape, processShape, Settings } from '../process/config.ts';
import { within } from '../process/within.ts';
import { createLogger, type Logger } from '../telemetry/log.ts';
import { kafkaPrototype } from './internals.ts';
import { KafkaProducer } from './producer.ts';
import { type KafkaSecurity, securityFromConfig, securitySettings } from './security.ts';
import { createSessionTime } from './session-time.ts';
import { KafkaSubscription } from './subscription.ts';
import { type PartitionProgress, TopicKeeper } from './topics.ts';

/** The method of the library's class that this file replaces. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

const patched = new WeakSet<object>();

/**
 * Stops the timers of idle connections. After each check of its pending requests, kafkajs 2.2.4 schedules the next
 * check, even when no request is pending. The delay is then negative, and Node treats it as 1 ms. So each connection
 * wakes the process a thousand times a second. A request that must wait schedules its own check.
 *
 * Patches a class of the library, once per process. Has no effect when a later version has a different class.
 */
export function stopIdleTimers(): void {
  const queue = kafkaPrototype('kafkajs/src/network/requestQueue/index.js', isRequestQueue);
  if (!queue || patched.has(queue)) return;
  patched.add(queue);
  const { scheduleCheckPendingRequests } = queue;
  queue.scheduleCheckPendingRequests = function (this: RequestQueue) {
    if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
  };
}

function isRequestQueue(value: object): value is RequestQueue {
  return (
    'scheduleCheckPendingRequests' in value &&
    typeof value.scheduleCheckPendingRequests === 'function'
  );
}

interface KafkaBusOptions {
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly logger: Logger;
  /** Retention of the topics that this process creates. Days. */
  readonly retentionDays: number;
  /**
   * Whether this process creates missing topics; true by default. If it does not, events wait, and the log contains the
   * name of the topic.
   */
  readonly createsTopics?: boolean;
  /** Absent when connections are plain text. */
  readonly security?: KafkaSecurity;
}

const CONNECT_TIMEOUT_MS = 3_000;
const REQUEST_TIMEOUT_MS = 10_000;
const HEALTH_TIMEOUT_MS = 3_000;

/** Creates a bus over Apache Kafka. It connects at its first use, so the brokers may start later. */
export function createKafkaBus(o: KafkaBusOptions): EventBus {
  stopIdleTimers();
  const kafka = new Kafka({
    clientId: o.clientId,
    ...securitySettings(o.security ?? {}),
    // Each client connects to the first broker of the list first. In a random order, only some clients start with a
    // hanging broker.
    brokers: () => shuffled(o.brokers),
    connectionTimeout: CONNECT_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 4 },
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => log(o.logger, entry),
  });
  const topics = new TopicKeeper(kafka, o);
  const producer = new KafkaProducer({ kafka, topics });
  const sessionTime = createSessionTime(o.logger);
  const subscriptions = new Set<{ stop(): Promise<void> }>();

  return {
    publish: (topic, records) => producer.publish(topic, records),
    async subscribe(s) {
      const shared = { kafka, keeper: topics, sessionTime, logger: o.logger };
      const subscription = new KafkaSubscription({ ...shared, ...s });
      await subscription.started();
      subscriptions.add(subscription);
      return {
        async stop() {
          subscriptions.delete(subscription);
          await subscription.stop();
        },
      };
    },
    hasCaughtUp: (group, topic, signal) => hasCaughtUp(topics, { group, topic, signal }),
    async health() {
      if (!(await within(HEALTH_TIMEOUT_MS, topics.reach())))
        throw new Error('Kafka does not answer');
    },
    async close() {
      await Promise.all([...subscriptions].map((subscription) => subscription.stop()));
      await producer.close();
      await topics.close();
    },
  };
}

/** Writes the library's log lines at our levels. Most of its errors are followed by a retry. */
function log(logger: Logger, { level, namespace, log: fields }: LogEntry): void {
  const { message, timestamp: _, logger: __, stack: ___, ...rest } = fields;
  const line = { kafka: namespace, ...rest };
  // Errors of brokers are also thrown, and the code that catches them retries or logs. Examples: another process
  // creates the same topic, a new cluster has no leaders, a rebalance, a session timeout that is too short.
  const isBrokerError =
    message.startsWith('Response ') || message.includes('group.min.session.timeout.ms');
  if (level <= logLevel.WARN && !isBrokerError) logger.warn(line, message);
  else logger.debug(line, message);
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** Pause between two checks. Consumers commit their offsets every second. Milliseconds. */
const CHECK_EVERY_MS = 500;
const TIMEOUT_MS = 10_000;

/**
 * Whether the group has handled all records that the topic has at this moment. Waits up to 10 s until it has. A group
 * without commits has caught up only if the partitions are empty. Rejects when no broker answers.
 */
export async function hasCaughtUp(
  keeper: Pick<TopicKeeper, 'progressOf'>,
  o: { readonly group: string; readonly topic: string; readonly signal: AbortSignal },
): Promise<boolean> {
  let progress = await keeper.progressOf(o.group, o.topic);
  const ends = new Map(progress.map(({ partition, end }) => [partition, end]));
  const deadline = performance.now() + TIMEOUT_MS;
  for (;;) {
    if (progress.every((one) => isPast(one, ends.get(one.partition) ?? one.end))) return true;
    if (performance.now() > deadline) return false;
    await sleep(CHECK_EVERY_MS, undefined, { signal: o.signal }).catch(() => {});
    if (o.signal.aborted) return false;
    progress = await keeper.progressOf(o.group, o.topic);
  }
}

/**
 * Whether the group has handled all records below the offset. A committed offset beyond the end is from before the
 * partition lost its data. It does not say which of the current records are handled.
 */
function isPast({ start, end, committed }: PartitionProgress, offset: bigint): boolean {
  return start >= offset || (committed >= offset && committed <= end);
}

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
