import { Kafka, type LogEntry, logLevel } from 'kafkajs';
import type { Logger } from '../log.ts';
import { within } from '../within.ts';
import type { EventBus } from './event-bus.ts';
import { stopIdleTimers } from './kafka-idle-timers.ts';
import { KafkaProducer } from './kafka-producer.ts';
import { hasCaughtUp } from './kafka-progress.ts';
import { type KafkaSecurity, securitySettings } from './kafka-security.ts';
import { createSessionTime } from './kafka-session-time.ts';
import { KafkaSubscription } from './kafka-subscription.ts';
import { TopicKeeper } from './kafka-topics.ts';

export interface KafkaBusOptions {
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
