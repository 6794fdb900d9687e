import type { Kafka, Producer } from 'kafkajs';
import { within } from '../within.ts';
import type { PartitionBatch } from './kafka-send-queues.ts';

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
export class KafkaConnection {
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
