import { setTimeout as sleep } from 'node:timers/promises';
import type { Admin, Kafka } from 'kafkajs';

/** Number of partitions of new topics. It must not change later, because keys would move. */
const PARTITIONS = 12;
/** Large enough for a snapshot of 900 kB with the rest of its event. */
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;
const DAY_MS = 24 * 60 * 60 * 1_000;
/** How long the election of all leaders of a new topic may take. */
const ELECTION_MS = 10_000;
const ELECTION_EVERY_MS = 50;

/** Offsets of one partition. */
export interface PartitionProgress {
  readonly partition: number;
  /** Offset of the first record that is still stored, or would be. */
  readonly start: bigint;
  /** Offset of the next record to be written. */
  readonly end: bigint;
  /** Offset of the next record that the group reads; -1 without a commit. */
  readonly committed: bigint;
}

export interface TopicKeeper {
  /** How many partitions the topic has. Creates a missing topic. Asks Kafka once per topic. */
  partitions(topic: string): Promise<number>;
  /** The broker that led the partition at the last check of the topic; -1 before. */
  leaderOf(topic: string, partition: number): number;
  /**
   * Checks the topic again after a failed send or read, and creates it if it is missing. Runs in the background. The
   * number of partitions stays the same.
   */
  check(topic: string): void;
  /** Rejects when no broker answers. */
  reach(): Promise<void>;
  /** Start and end of the topic's partitions, and the group's offset in each. */
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

  /** Idempotent: another process may create the topic at the same time. */
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
    // -1: the default number of replicas of the brokers.
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

/** Empty while the topic is so new that some partition has no leader. */
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
