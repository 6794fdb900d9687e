import { setImmediate } from 'node:timers/promises';
import type { Kafka, Producer } from 'kafkajs';
import { within } from '../within.ts';
import type { BusRecord } from './event-bus.ts';
import { createSendQueues, type PartitionBatch, type SendQueues } from './kafka-send-queues.ts';
import type { TopicKeeper } from './kafka-topics.ts';
import { murmur2 } from './murmur2.ts';

const ACK_TIMEOUT_MS = 6_000;
/** kafkajs retries fast failures itself. It would ask a hanging broker five times, for a minute. */
const ANSWER_MS = 12_000;

export interface KafkaProducer {
  publish(topic: string, records: readonly BusRecord[]): Promise<void>;
  close(): Promise<void>;
}

/** A topic with records to publish. */
interface Publishing {
  readonly topic: string;
  readonly queues: SendQueues;
  /** Keys of the sends in flight. Records for a key that is in flight are collected for its next send. */
  readonly inFlight: Set<string>;
  isGathering: boolean;
}

/**
 * Publishes records; an acknowledged record is never lost. One send carries records of all partitions of one leader.
 * When a send spans several leaders and one of them dies, kafkajs drops the records of that partition without an error,
 * so each partition is checked in the response. When one partition fails, kafkajs sends everything again. So a
 * partition is sent alone until its first acknowledgement, and after a failure. A partition has one send in flight at a
 * time, which keeps its records in order.
 *
 * After a broker stops answering, kafkajs keeps asking it, because it searches for the new leader only when a
 * connection breaks. A producer whose first broker hangs never works. So after a failure, a producer that met such a
 * broker, or that has not published yet, is replaced.
 */
export function createKafkaProducer(o: { kafka: Kafka; topics: TopicKeeper }): KafkaProducer {
  let current = openProducer(o.kafka);
  /** Replaced producers with a send in flight. Closed earlier, they would open their connections again. */
  const retired = new Set<OpenProducer>();
  const topics = new Map<string, Publishing>();

  function publishingOf(topic: string): Publishing {
    const known = topics.get(topic);
    if (known) return known;
    const queues = createSendQueues();
    const made = { topic, queues, inFlight: new Set<string>(), isGathering: false };
    topics.set(topic, made);
    return made;
  }

  /** Collects the records of one event loop tick for one send. */
  async function gather(publishing: Publishing): Promise<void> {
    if (publishing.isGathering) return;
    publishing.isGathering = true;
    await setImmediate();
    publishing.isGathering = false;
    sendReady(publishing);
  }

  function sendReady(publishing: Publishing): void {
    const { topic, queues, inFlight } = publishing;
    const sendOf = (one: number): string =>
      queues.isProven(one) ? `leader ${o.topics.leaderOf(topic, one)}` : `partition ${one}`;
    for (const [name, partitions] of Map.groupBy(queues.ready(), sendOf)) {
      if (inFlight.has(name)) continue;
      inFlight.add(name);
      const batches = queues.take(partitions);
      // Not awaited: sends to other leaders start at the same time. Publishers get the failures.
      void send(publishing, batches).finally(() => {
        inFlight.delete(name);
        sendReady(publishing);
      });
    }
  }

  /** Never rejects. The promises of the records reject. */
  async function send(
    { topic, queues }: Publishing,
    batches: readonly PartitionBatch[],
  ): Promise<void> {
    const lost = new Set(batches);
    try {
      const acknowledged = await askBroker(topic, batches);
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
    if (lost.size > 0) o.topics.check(topic);
  }

  /** Sends the batches and returns the partitions that the broker acknowledged. */
  async function askBroker(
    topic: string,
    batches: readonly PartitionBatch[],
  ): Promise<ReadonlySet<number>> {
    const used = current;
    used.sends += 1;
    let acknowledged: ReadonlySet<number> = new Set();
    const sending = sendWith(used, topic, batches)
      .then((partitions) => {
        acknowledged = partitions;
      })
      .finally(() => {
        used.sends -= 1;
        closeIfDone(used);
      });
    try {
      if (!(await within(ANSWER_MS, sending))) throw new UnansweredError(topic);
      used.hasPublished = true;
      return acknowledged;
    } catch (error) {
      const isOfNoUse = error instanceof UnansweredError || !used.hasPublished;
      if (isOfNoUse && used === current) {
        current = openProducer(o.kafka);
        retired.add(used);
        closeIfDone(used);
      }
      throw error;
    }
  }

  function closeIfDone(one: OpenProducer): void {
    // Not awaited: a hanging broker may delay it.
    if (one.sends === 0 && retired.delete(one)) one.producer.disconnect().catch(() => {});
  }

  return {
    async publish(topic, records) {
      if (records.length === 0) return;
      const count = await o.topics.partitions(topic);
      const publishing = publishingOf(topic);
      const done = records.map(
        (record) =>
          new Promise<void>((resolve, reject) => {
            publishing.queues.add(murmur2(record.key) % count, { record, resolve, reject });
          }),
      );
      void gather(publishing);
      await Promise.all(done);
    },
    async close() {
      await Promise.all([current, ...retired].map(({ producer }) => producer.disconnect()));
    },
  };
}

/** Returns the partitions in the response. */
async function sendWith(
  { producer, connect }: OpenProducer,
  topic: string,
  batches: readonly PartitionBatch[],
): Promise<ReadonlySet<number>> {
  await connect();
  const answers = await producer.send({
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
  // A send to a partition without a leader resolves too, although no record was written.
  return new Set(
    answers.filter(({ errorCode }) => errorCode === 0).map(({ partition }) => partition),
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
    // One send at a time per partition keeps the order. `idempotent` loses and duplicates records.
    idempotent: false,
    createPartitioner:
      () =>
      ({ message }) =>
        chosen(message.partition),
  });
  return { producer, connect: connector(producer), sends: 0, hasPublished: false };
}

/** A broker received the records and did not answer in time. They may be stored. */
class UnansweredError extends Error {
  constructor(topic: string) {
    super(`records of ${topic} were not acknowledged within ${ANSWER_MS} ms`);
  }
}

/** Connects once, and again after a failure. */
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
