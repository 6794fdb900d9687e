import { setImmediate } from 'node:timers/promises';
import type { Kafka } from 'kafkajs';
import type { BusRecord } from './event-bus.ts';
import { KafkaConnection } from './kafka-connection.ts';
import { createSendQueues, type PartitionBatch, type SendQueues } from './kafka-send-queues.ts';
import type { TopicKeeper } from './kafka-topics.ts';
import { murmur2 } from './murmur2.ts';

/** The state of a topic to which records are published. */
interface Publishing {
  readonly topic: string;
  readonly queues: SendQueues;
  /**
   * Names of sends in flight. The name is that of a leader or a partition. Further records for that leader or partition
   * wait until the send ends.
   */
  readonly inFlight: Set<string>;
  isGathering: boolean;
}

/**
 * Publishes records. An acknowledged record is never lost.
 *
 * One send has records for all partitions of one leader. If a leader dies during a send to several leaders, kafkajs
 * drops the records for it without an error. So this class checks each partition in the response. If one partition
 * fails, kafkajs sends all partitions of the send again. So a partition is sent alone until its first acknowledgement,
 * and after a failure. A partition has one send in flight at a time, which keeps its records in order.
 */
export class KafkaProducer {
  readonly #keeper: TopicKeeper;
  readonly #connection: KafkaConnection;
  readonly #topics = new Map<string, Publishing>();

  constructor(o: { kafka: Kafka; topics: TopicKeeper }) {
    this.#keeper = o.topics;
    this.#connection = new KafkaConnection(o.kafka);
  }

  async publish(topic: string, records: readonly BusRecord[]): Promise<void> {
    if (records.length === 0) return;
    const count = await this.#keeper.partitions(topic);
    const publishing = this.#publishingOf(topic);
    const done = records.map(
      (record) =>
        new Promise<void>((resolve, reject) => {
          publishing.queues.add(murmur2(record.key) % count, { record, resolve, reject });
        }),
    );
    void this.#gather(publishing);
    await Promise.all(done);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #publishingOf(topic: string): Publishing {
    const existing = this.#topics.get(topic);
    if (existing) return existing;
    const queues = createSendQueues();
    const created = { topic, queues, inFlight: new Set<string>(), isGathering: false };
    this.#topics.set(topic, created);
    return created;
  }

  /** Collects the records of one event loop tick into one send. */
  async #gather(publishing: Publishing): Promise<void> {
    if (publishing.isGathering) return;
    publishing.isGathering = true;
    await setImmediate();
    publishing.isGathering = false;
    this.#sendReady(publishing);
  }

  #sendReady(publishing: Publishing): void {
    const { topic, queues, inFlight } = publishing;
    const sendOf = (partition: number): string =>
      queues.isProven(partition)
        ? `leader ${this.#keeper.leaderOf(topic, partition)}`
        : `partition ${partition}`;
    for (const [name, partitions] of Map.groupBy(queues.ready(), sendOf)) {
      if (inFlight.has(name)) continue;
      inFlight.add(name);
      const batches = queues.take(partitions);
      // Do not wait here, so that the sends to several leaders start at the same time. Failures reject the promises of
      // the publishers.
      void this.#send(publishing, batches).finally(() => {
        inFlight.delete(name);
        this.#sendReady(publishing);
      });
    }
  }

  /** Never rejects. A failure rejects the promises of the records instead. */
  async #send({ topic, queues }: Publishing, batches: readonly PartitionBatch[]): Promise<void> {
    const lost = new Set(batches);
    try {
      const acknowledged = await this.#connection.send(topic, batches);
      for (const batch of batches) {
        if (!acknowledged.has(batch.partition)) continue;
        lost.delete(batch);
        queues.sent(batch);
      }
      for (const batch of lost) {
        queues.failed(batch, new Error(`${topic}/${batch.partition} was not acknowledged`));
      }
    } catch (error) {
      for (const batch of batches) queues.failed(batch, error);
    }
    if (lost.size > 0) this.#keeper.check(topic);
  }
}
