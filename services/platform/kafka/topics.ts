import { setTimeout as sleep } from 'node:timers/promises';
import type { Admin, ITopicConfig, Kafka } from 'kafkajs';

/** Number of partitions of new topics. It must not change later, because keys would move to other partitions. */
const PARTITIONS = 12;
/** Maximum size of a message. An event with a snapshot of 900 kB fits. */
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;
const DAY_MS = 24 * 60 * 60 * 1_000;
/** Maximum wait until every partition of a new topic has a leader. Milliseconds. */
const ELECTION_MS = 10_000;
const ELECTION_EVERY_MS = 50;

/** The offsets of one partition. */
export interface PartitionProgress {
  readonly partition: number;
  /** Offset of the first stored record. Equal to `end` when the partition is empty. */
  readonly start: bigint;
  /** Offset of the next record to be written. */
  readonly end: bigint;
  /** Offset of the next record that the group reads; -1 when the group has not committed any. */
  readonly committed: bigint;
}

export interface TopicOptions {
  readonly retentionDays: number;
  /** Whether this process creates missing topics; true by default. */
  readonly createsTopics?: boolean;
}

/** Creates topics, and caches their partitions and leaders. */
export class TopicKeeper {
  readonly #admin: Admin;
  readonly #o: TopicOptions;
  readonly #leaders = new Map<string, Leaders>();
  readonly #lookups = new Map<string, Promise<Leaders>>();
  #connecting: Promise<void> | undefined;

  constructor(kafka: Kafka, o: TopicOptions) {
    this.#admin = kafka.admin();
    this.#o = o;
  }

  /**
   * Returns the number of partitions of the topic. Creates a missing topic. Asks Kafka only once for each topic.
   *
   * @throws Error when the topic is missing and this process does not create topics.
   */
  async partitions(topic: string): Promise<number> {
    return (this.#leaders.get(topic) ?? (await this.#lookUp(topic))).size;
  }

  /** Returns the leader that the partition had when the topic was last checked; -1 before the first check. */
  leaderOf(topic: string, partition: number): number {
    return this.#leaders.get(topic)?.get(partition) ?? -1;
  }

  /**
   * Checks the topic again in the background, after a failed send or read. Creates the topic if it is missing. The
   * number of partitions stays the same.
   */
  check(topic: string): void {
    this.#lookUp(topic).catch(() => {});
  }

  /** Sends a request to the brokers. Rejects when no broker answers. */
  async reach(): Promise<void> {
    const client = await this.#connected();
    await client.describeCluster();
  }

  /** Returns start and end of the topic's partitions, and the group's offset in each. */
  async progressOf(groupId: string, topic: string): Promise<PartitionProgress[]> {
    const client = await this.#connected();
    const committed = new Map<number, bigint>();
    for (const { partitions } of await client.fetchOffsets({ groupId, topics: [topic] })) {
      for (const { partition, offset } of partitions) committed.set(partition, BigInt(offset));
    }
    const ends = await client.fetchTopicOffsets(topic);
    return ends.map(({ partition, low, high }) => ({
      partition,
      start: BigInt(low),
      end: BigInt(high),
      committed: committed.get(partition) ?? -1n,
    }));
  }

  async close(): Promise<void> {
    if (this.#connecting !== undefined) await this.#admin.disconnect();
    this.#connecting = undefined;
  }

  async #connected(): Promise<Admin> {
    this.#connecting ??= this.#admin.connect();
    try {
      await this.#connecting;
    } catch (error) {
      this.#connecting = undefined;
      throw error;
    }
    return this.#admin;
  }

  #lookUp(topic: string): Promise<Leaders> {
    const running = this.#lookups.get(topic);
    if (running !== undefined) return running;
    const lookup = this.#ensure(topic)
      .then((leaders) => {
        this.#leaders.set(topic, leaders);
        return leaders;
      })
      .finally(() => this.#lookups.delete(topic));
    this.#lookups.set(topic, lookup);
    return lookup;
  }

  /** Creates the topic if it is missing, and waits for its leaders. Several processes may do so at the same time. */
  async #ensure(topic: string): Promise<Leaders> {
    const client = await this.#connected();
    if (!(await client.listTopics()).includes(topic)) {
      if (this.#o.createsTopics === false) throw new Error(missing(topic));
      const topics = [topicDefinition(topic, this.#o.retentionDays)];
      await client.createTopics({ topics, waitForLeaders: false });
    }
    for (const end = performance.now() + ELECTION_MS; ; await sleep(ELECTION_EVERY_MS)) {
      const leaders = await leadersOf(client, topic);
      if (leaders.size > 0) return leaders;
      if (performance.now() > end) throw new Error(`Kafka names no leader for ${topic}`);
    }
  }
}

function missing(topic: string): string {
  return `Kafka has no topic ${topic}, and KAFKA_TOPICS=check: run services/platform/bus/topics.ts --create`;
}

/** Returns the settings for the creation of a topic of events. */
export function topicDefinition(topic: string, retentionDays: number): ITopicConfig {
  const entries = {
    'retention.ms': String(retentionDays * DAY_MS),
    'max.message.bytes': String(MAX_MESSAGE_BYTES),
  };
  // -1 means the default number of replicas of the brokers.
  return {
    topic,
    numPartitions: PARTITIONS,
    replicationFactor: -1,
    configEntries: Object.entries(entries).map(([name, value]) => ({ name, value })),
  };
}

/** The leader of each partition. */
type Leaders = ReadonlyMap<number, number>;

/** Returns the leader of each partition; empty while the topic is so new that a partition has no leader. */
async function leadersOf(client: Admin, topic: string): Promise<Leaders> {
  try {
    const { topics } = await client.fetchTopicMetadata({ topics: [topic] });
    const partitions = topics.find(({ name }) => name === topic)?.partitions ?? [];
    return new Map(partitions.map(({ partitionId, leader }) => [partitionId, leader]));
  } catch (error) {
    if (isNotReady(error)) return new Map();
    throw error;
  }
}

function isNotReady(error: unknown): boolean {
  if (!(error instanceof Error) || !('type' in error)) return false;
  return error.type === 'UNKNOWN_TOPIC_OR_PARTITION' || error.type === 'LEADER_NOT_AVAILABLE';
}
