import { setTimeout as sleep } from 'node:timers/promises';
import type { Admin, Kafka } from 'kafkajs';

/** Topics made here have this many partitions. It must not change later: keys would move. */
const PARTITIONS = 12;
/** A snapshot of 900 kB with what surrounds it must fit. */
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;
const DAY_MS = 24 * 60 * 60 * 1_000;
/** How long a topic just made may take until every partition has a leader. */
const ELECTION_MS = 10_000;
const ELECTION_EVERY_MS = 50;

/** Offsets of one partition. */
export interface PartitionProgress {
  readonly partition: number;
  /** Of the first record that is still there, or would be. */
  readonly start: bigint;
  /** Of the next record. */
  readonly end: bigint;
  /** The next one that the group reads; -1 while it has committed none. */
  readonly committed: bigint;
}

export interface TopicKeeper {
  /** How many partitions the topic has; it is made when missing. Kafka is asked once a topic. */
  partitions(topic: string): Promise<number>;
  /** The broker that led the partition when the topic was last looked at; -1 before. */
  leaderOf(topic: string, partition: number): number;
  /**
   * Looks at the topic again, and makes it again should it be gone: a send or a read of it failed.
   * Nobody waits for that: the number of partitions stays what it was.
   */
  check(topic: string): void;
  /** Rejects when no broker answers. */
  reach(): Promise<void>;
  /** Where the partitions of the topic begin and end, and up to where the group has dealt with each. */
  progressOf(group: string, topic: string): Promise<PartitionProgress[]>;
  close(): Promise<void>;
}

export function createTopicKeeper(kafka: Kafka, retentionDays: number): TopicKeeper {
  const known = new Map<string, Leaders>();
  const asking = new Map<string, Promise<Leaders>>();
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

  /** Idempotent: a topic that another process has made in the meantime is fine. */
  async function ensure(topic: string): Promise<Leaders> {
    const client = await connected();
    if (!(await client.listTopics()).includes(topic)) {
      await client.createTopics({ topics: [definition(topic)], waitForLeaders: false });
    }
    for (const end = performance.now() + ELECTION_MS; ; await sleep(ELECTION_EVERY_MS)) {
      const leaders = await leadersOf(client, topic);
      if (leaders.size > 0) return leaders;
      if (performance.now() > end) throw new Error(`Kafka names no leader for ${topic}`);
    }
  }

  function ask(topic: string): Promise<Leaders> {
    const asked = asking.get(topic);
    if (asked !== undefined) return asked;
    const answer = ensure(topic)
      .then((leaders) => {
        known.set(topic, leaders);
        return leaders;
      })
      .finally(() => asking.delete(topic));
    asking.set(topic, answer);
    return answer;
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
    async partitions(topic) {
      return (known.get(topic) ?? (await ask(topic))).size;
    },
    leaderOf: (topic, partition) => known.get(topic)?.get(partition) ?? -1,
    check(topic) {
      ask(topic).catch(() => {});
    },
    async reach() {
      const client = await connected();
      await client.describeCluster();
    },
    async progressOf(groupId, topic) {
      const client = await connected();
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
    },
    async close() {
      if (connecting !== undefined) await admin.disconnect();
      connecting = undefined;
    },
  };
}

/** The leader of each partition. */
type Leaders = ReadonlyMap<number, number>;

/** Empty while the topic is so young that not every partition has a leader. */
async function leadersOf(client: Admin, topic: string): Promise<Leaders> {
  try {
    const { topics } = await client.fetchTopicMetadata({ topics: [topic] });
    const partitions = topics.find(({ name }) => name === topic)?.partitions ?? [];
    return new Map(partitions.map(({ partitionId, leader }) => [partitionId, leader]));
  } catch (error) {
    if (isYoung(error)) return new Map();
    throw error;
  }
}

function isYoung(error: unknown): boolean {
  if (!(error instanceof Error) || !('type' in error)) return false;
  return error.type === 'UNKNOWN_TOPIC_OR_PARTITION' || error.type === 'LEADER_NOT_AVAILABLE';
}
