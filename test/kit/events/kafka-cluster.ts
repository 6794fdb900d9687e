import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel } from 'kafkajs';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import type { EventBus, ReceivedRecord } from '../../../services/platform/bus/event-bus.ts';
import { until } from '../until.ts';

export interface TestCluster {
  readonly brokers: readonly string[];
  /** Kills the broker that leads the topic's first partition with SIGKILL, and returns its index. */
  killLeader(topic: string): Promise<number>;
  /** Kills the broker that coordinates the group with SIGKILL. */
  killCoordinator(group: string): Promise<number>;
  /** Freezes the broker that leads the topic's first partition, and returns its index. */
  freezeLeader(topic: string): Promise<number>;
  thaw(index: number): void;
  killAll(): Promise<void>;
  restart(...indexes: readonly number[]): Promise<void>;
  /** Starts empty brokers at the same addresses, without topics, records and offsets. */
  restartEmpty(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts real brokers with a separate folder. */
export async function startCluster(count: number): Promise<TestCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'rms-kafka-'));
  let kafka: LocalKafka = await startKafka({ folder, count });
  const all = Array.from({ length: count }, (_, index) => index);

  async function leaderOf(topic: string, partition: (count: number) => number): Promise<number> {
    const settings = { brokers: [...kafka.brokers], logLevel: logLevel.NOTHING };
    const admin = new Kafka(settings).admin();
    await admin.connect();
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      const partitions = topics[0]?.partitions ?? [];
      const selected = partition(partitions.length);
      const found = partitions.find(({ partitionId }) => partitionId === selected);
      if (!found) throw new Error(`${topic}/${selected} has no leader`);
      // Brokers are numbered from 1.
      return found.leader - 1;
    } finally {
      await admin.disconnect();
    }
  }

  async function kill(index: number): Promise<number> {
    await kafka.kill(index);
    return index;
  }

  return {
    brokers: kafka.brokers,
    killLeader: async (topic) => kill(await leaderOf(topic, () => 0)),
    killCoordinator: async (group) =>
      kill(await leaderOf('__consumer_offsets', (partitions) => hashOf(group) % partitions)),
    async freezeLeader(topic) {
      const index = await leaderOf(topic, () => 0);
      kafka.freeze(index);
      return index;
    },
    thaw: (index) => kafka.thaw(index),
    async killAll() {
      await Promise.all(all.map((index) => kafka.kill(index)));
    },
    async restart(...indexes) {
      const selected = indexes.length > 0 ? indexes : all;
      await Promise.all(selected.map((index) => kafka.restart(index)));
    },
    async restartEmpty() {
      await kafka.stop();
      for (const index of all) rmSync(join(folder, `broker-${index + 1}`), { recursive: true });
      kafka = await startKafka({ folder, count });
    },
    async stop() {
      await kafka.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Java's hash of a string. Kafka uses it to choose the group's partition of `__consumer_offsets`. */
function hashOf(text: string): number {
  let hash = 0;
  for (const char of text) hash = (Math.imul(31, hash) + (char.codePointAt(0) ?? 0)) | 0;
  return hash & 0x7fffffff;
}

/** The numbers 1, 2, 3 … that were published and acknowledged, by key. */
export interface Writers {
  readonly acknowledged: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/** Publishes each key's numbers in order. Repeats each number until it is acknowledged. */
export function startWriters(bus: EventBus, topic: string): Writers {
  const acknowledged = new Map<string, number>();
  const stopping = new AbortController();
  const write = async (key: string): Promise<void> => {
    for (let n = 1; !stopping.signal.aborted; ) {
      try {
        await bus.publish(topic, [{ key, value: Buffer.from(String(n)), headers: {} }]);
        acknowledged.set(key, n);
        n += 1;
        await sleep(25);
      } catch {
        await sleep(100);
      }
    }
  };
  const writers = Array.from({ length: 40 }, (_, n) => write(`key-${n}`));
  return {
    acknowledged,
    async stop() {
      stopping.abort();
      await Promise.all(writers);
    },
  };
}

/** Collects the records that members of a group received, and the longest time without a new record. */
export function trackRecords() {
  const first = new Map<string, number>();
  let total = 0;
  let gaps = 0;
  let last = Date.now();
  let longest = 0;
  return {
    handle: async (records: readonly ReceivedRecord[]): Promise<void> => {
      for (const { key, value } of records) {
        const n = Number(Buffer.from(value).toString());
        const received = first.get(key) ?? 0;
        if (n <= received) continue;
        if (n > received + 1) gaps += 1;
        first.set(key, n);
        total += 1;
        longest = Math.max(longest, Date.now() - last);
        last = Date.now();
      }
    },
    /** Number of different records. Repeated records are allowed and not counted. */
    total: () => total,
    /** Keys whose numbers did not first arrive as 1, 2, 3 … */
    gaps: () => gaps,
    /** Resets the longest time without a new record. */
    mark(): void {
      [longest, last] = [0, Date.now()];
    },
    /** The longest time without a new record since the reset. Milliseconds. */
    silenceMs: () => longest,
    /** Waits until every record has been received that was acknowledged before this call. */
    async catchUp(writers: Writers, timeoutMs: number): Promise<void> {
      const goal = new Map(writers.acknowledged);
      const isThere = () => [...goal].every(([key, n]) => (first.get(key) ?? 0) >= n);
      await until(isThere, timeoutMs);
    },
  };
}
