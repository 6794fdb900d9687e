import type { Admin, Kafka } from 'kafkajs';

/** Topics made here have this many partitions. It must not change later: keys would move. */
const PARTITIONS = 12;
/** A snapshot of 900 kB with what surrounds it must fit. */
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;
const DAY_MS = 24 * 60 * 60 * 1_000;

export interface TopicKeeper {
  /** How many partitions the topic has; it is made when missing. Asked once a topic. */
  partitions(topic: string): Promise<number>;
  /** Forgets what is known of a topic: a send to it failed. */
  forget(topic: string): void;
  /** Rejects when no broker answers. */
  reach(): Promise<void>;
  close(): Promise<void>;
}

export function createTopicKeeper(kafka: Kafka, retentionDays: number): TopicKeeper {
  const known = new Map<string, Promise<number>>();
  const admin = kafka.admin();
  let connecting: Promise<void> | undefined;

  async function connected(): Promise<Admin> {
    connecting ??= admin.connect();
    try {
      await connecting;
    } catch (error) {
      connecting = undefined;
      throw error;
    }
    return admin;
  }

  /** Idempotent: who finds the topic made meanwhile is content. */
  async function ensure(topic: string): Promise<number> {
    const client = await connected();
    if (!(await client.listTopics()).includes(topic)) {
      await client.createTopics({ topics: [definition(topic)], waitForLeaders: true });
    }
    const { topics } = await client.fetchTopicMetadata({ topics: [topic] });
    const count = topics.find(({ name }) => name === topic)?.partitions.length ?? 0;
    if (count === 0) throw new Error(`Kafka names no partition of ${topic}`);
    return count;
  }

  function definition(topic: string) {
    const entries = {
      'retention.ms': String(retentionDays * DAY_MS),
      'max.message.bytes': String(MAX_MESSAGE_BYTES),
    };
    // -1: as many replicas as the brokers are set up for.
    return {
      topic,
      numPartitions: PARTITIONS,
      replicationFactor: -1,
      configEntries: Object.entries(entries).map(([name, value]) => ({ name, value })),
    };
  }

  return {
    partitions(topic) {
      const found = known.get(topic);
      if (found !== undefined) return found;
      const count = ensure(topic);
      known.set(topic, count);
      count.catch(() => known.delete(topic));
      return count;
    },
    forget(topic) {
      known.delete(topic);
    },
    async reach() {
      const client = await connected();
      await client.describeCluster();
    },
    async close() {
      if (connecting !== undefined) await admin.disconnect();
      connecting = undefined;
    },
  };
}
