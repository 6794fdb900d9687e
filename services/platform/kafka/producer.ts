import { setImmediate } from 'node:timers/promises';
import type { Kafka, Producer } from 'kafkajs';
import type { BusRecord } from '../bus/event-bus.ts';
import { within } from '../process/within.ts';
import { murmur2 } from './murmur2.ts';
import type { TopicKeeper } from './topics.ts';

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

const ACK_TIMEOUT_MS = 6_000;
/**
 * Time limit for a response of a broker. It includes the retries of kafkajs, which retries fast failures. Without this
 * limit, kafkajs would send five requests to a hanging broker, for a minute. Milliseconds.
 */
const RESPONSE_TIMEOUT_MS = 12_000;

/**
 * Sends batches. Replaces the producer when its connection to the brokers no longer works.
 *
 * kafkajs searches for a new leader only when a connection breaks. So it keeps sending to a broker that hangs, and a
 * producer whose first broker hangs never works. After a failure, this class replaces a producer that got no response
 * or has never published.
 */
class KafkaConnection {
  readonly #kafka: Kafka;
  #current: OpenProducer;
  /**
   * Replaced producers that still have a send in flight. They stay open, because a producer that is closed during a
   * send would connect again.
   */
  readonly #retired = new Set<OpenProducer>();

  constructor(kafka: Kafka) {
    this.#kafka = kafka;
    this.#current = openProducer(kafka);
  }

  /** Sends the batches. Returns the partitions whose records the broker acknowledged. */
  async send(topic: string, batches: readonly PartitionBatch[]): Promise<ReadonlySet<number>> {
    const used = this.#current;
    used.sends += 1;
    let acknowledged: ReadonlySet<number> = new Set();
    const sending = sendWith(used, topic, batches)
      .then((partitions) => {
        acknowledged = partitions;
      })
      .finally(() => {
        used.sends -= 1;
        this.#closeIfDone(used);
      });
    try {
      if (!(await within(RESPONSE_TIMEOUT_MS, sending))) throw new NoResponseError(topic);
      used.hasPublished = true;
      return acknowledged;
    } catch (error) {
      const isBroken = error instanceof NoResponseError || !used.hasPublished;
      if (isBroken && used === this.#current) this.#replace(used);
      throw error;
    }
  }

  #replace(used: OpenProducer): void {
    this.#current = openProducer(this.#kafka);
    this.#retired.add(used);
    this.#closeIfDone(used);
  }

  #closeIfDone(open: OpenProducer): void {
    if (open.sends > 0 || !this.#retired.delete(open)) return;
    // Do not wait for the disconnect, because a hanging broker may delay it.
    open.producer.disconnect().catch(() => {});
  }

  async close(): Promise<void> {
    const all = [this.#current, ...this.#retired];
    await Promise.all(all.map(({ producer }) => producer.disconnect()));
  }
}

/** Sends the batches. Returns the partitions that the response acknowledges. */
async function sendWith(
  { producer, connect }: OpenProducer,
  topic: string,
  batches: readonly PartitionBatch[],
): Promise<ReadonlySet<number>> {
  await connect();
  const responses = await producer.send({
    topic,
    acks: -1,
    timeout: ACK_TIMEOUT_MS,
    messages: batches.flatMap(({ partition, records }) =>
      records.map(({ record }) => ({
        partition,
        key: record.key,
        value: Buffer.from(record.value.buffer, record.value.byteOffset, record.value.length),
        headers: { ...record.headers },
      })),
    ),
  });
  // Check the error code of each partition. A send to a partition without a leader also resolves, but writes no record.
  return new Set(
    responses.filter(({ errorCode }) => errorCode === 0).map(({ partition }) => partition),
  );
}

interface OpenProducer {
  readonly producer: Producer;
  readonly connect: () => Promise<void>;
  /** Sends in flight. */
  sends: number;
  hasPublished: boolean;
}

function openProducer(kafka: Kafka): OpenProducer {
  const producer = kafka.producer({
    allowAutoTopicCreation: false,
    // One send at a time for each partition keeps the order. The option `idempotent` of kafkajs loses and duplicates
    // records.
    idempotent: false,
    createPartitioner:
      () =>
      ({ message }) =>
        chosen(message.partition),
  });
  return { producer, connect: connector(producer), sends: 0, hasPublished: false };
}

/** The broker did not respond in time. It may have stored the records. */
class NoResponseError extends Error {
  constructor(topic: string) {
    super(`records of ${topic} were not acknowledged within ${RESPONSE_TIMEOUT_MS} ms`);
  }
}

/** Returns a function that connects once, and again after a failure. */
function connector(producer: Producer): () => Promise<void> {
  let connecting: Promise<void> | undefined;
  return async () => {
    connecting ??= producer.connect();
    try {
      await connecting;
    } catch (error) {
      connecting = undefined;
      throw error;
    }
  };
}

function chosen(partition: number | undefined): number {
  if (partition === undefined) throw new Error('every record names its partition');
  return partition;
}

/** Maximum number of bytes in one send. With its framing, a send stays below the limit of the broker. */
const MAX_SEND_BYTES = 1_000_000;
const MAX_SEND_RECORDS = 500;
const RECORD_OVERHEAD_BYTES = 200;

/** A record that waits to be sent, and the functions that resolve or reject the promise of its publisher. */
interface Waiting {
  readonly record: BusRecord;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The records that one send has for one partition. */
export interface PartitionBatch {
  readonly partition: number;
  readonly records: readonly Waiting[];
}

/** The records of one topic that wait to be sent, by partition, in order of arrival. */
interface SendQueues {
  add(partition: number, waiting: Waiting): void;
  /** Returns the partitions that have records to send and no send in flight. */
  ready(): number[];
  /** Whether the last batch of the partition was acknowledged. */
  isProven(partition: number): boolean;
  /**
   * Takes the records for one send to these partitions. Each partition is then in flight until `sent` or `failed` is
   * called. The first record is taken even if it is larger than the limit. Partitions that get no record in this send
   * come first in the next one.
   */
  take(partitions: readonly number[]): PartitionBatch[];
  /** The broker acknowledged the batch. */
  sent(batch: PartitionBatch): void;
  /**
   * The batch failed. Publishers get an error for all records of the partition, because later records must not overtake
   * failed ones.
   */
  failed(batch: PartitionBatch, error: unknown): void;
}

interface Queue {
  readonly waiting: Waiting[];
  isInFlight: boolean;
  isProven: boolean;
}

export function createSendQueues(): SendQueues {
  const queues = new Map<number, Queue>();

  const queueOf = (partition: number): Queue => {
    const queue = queues.get(partition) ?? { waiting: [], isInFlight: false, isProven: false };
    queues.set(partition, queue);
    return queue;
  };

  return {
    add(partition, waiting) {
      queueOf(partition).waiting.push(waiting);
    },
    ready: () =>
      [...queues]
        .filter(([, { waiting, isInFlight }]) => waiting.length > 0 && !isInFlight)
        .map(([partition]) => partition),
    isProven: (partition) => queueOf(partition).isProven,
    take(partitions) {
      const capacity = { bytes: MAX_SEND_BYTES, records: MAX_SEND_RECORDS };
      const batches: PartitionBatch[] = [];
      for (const partition of partitions) {
        const queue = queueOf(partition);
        const records = takeRecords(queue.waiting, capacity, batches.length === 0);
        if (records.length === 0) break;
        queue.isInFlight = true;
        // Move the partition to the end of the order, so that others come first in the next send.
        queues.delete(partition);
        queues.set(partition, queue);
        batches.push({ partition, records });
      }
      return batches;
    },
    sent({ partition, records }) {
      Object.assign(queueOf(partition), { isInFlight: false, isProven: true });
      for (const { resolve } of records) resolve();
    },
    failed({ partition, records }, error) {
      const queue = queueOf(partition);
      Object.assign(queue, { isInFlight: false, isProven: false });
      for (const { reject } of [...records, ...queue.waiting.splice(0)]) reject(error);
    },
  };
}

/**
 * Takes as many records from the front of the queue as the send has capacity for, and reduces the capacity by their
 * size.
 */
function takeRecords(
  waiting: Waiting[],
  capacity: { bytes: number; records: number },
  isFirst: boolean,
): Waiting[] {
  let count = 0;
  for (const { record } of waiting) {
    const bytes = record.value.length + record.key.length + RECORD_OVERHEAD_BYTES;
    const fits = bytes <= capacity.bytes && capacity.records > 0;
    if (!fits && !(isFirst && count === 0)) break;
    capacity.bytes -= bytes;
    capacity.records -= 1;
    count += 1;
  }
  return waiting.splice(0, count);
}
