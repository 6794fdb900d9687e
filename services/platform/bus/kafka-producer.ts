import { setImmediate } from 'node:timers/promises';
import type { Kafka, Producer } from 'kafkajs';
import { within } from '../within.ts';
import type { BusRecord } from './event-bus.ts';
import type { TopicKeeper } from './kafka-topics.ts';
import { murmur2 } from './murmur2.ts';

/** What one send carries, so that it stays under the broker's limit with its framing. */
const MAX_SEND_BYTES = 1_000_000;
const MAX_SEND_RECORDS = 500;
const RECORD_OVERHEAD_BYTES = 200;
const ACK_TIMEOUT_MS = 6_000;
/** kafkajs tries again by itself what fails fast; a broker that hangs it would ask five times, for a minute. */
const ANSWER_MS = 12_000;

interface Waiting {
  readonly record: BusRecord;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Lane {
  readonly topic: string;
  readonly partition: number;
  readonly waiting: Waiting[];
  isSending: boolean;
}

export interface KafkaProducer {
  publish(topic: string, records: readonly BusRecord[]): Promise<void>;
  close(): Promise<void>;
}

/**
 * Publishes without losing what was acknowledged. kafkajs loses records when one send spans several
 * leaders and one of them dies, so each send goes to one partition that is chosen here, a partition
 * has one send at a time, and the answer must name it.
 *
 * After a broker that does not answer kafkajs goes on asking it, as it looks for the new leader only
 * when a connection breaks; and one that began with such a broker never works at all. So a producer that
 * met one, or that has not published anything yet, is replaced after a failure.
 */
export function createKafkaProducer(o: { kafka: Kafka; topics: TopicKeeper }): KafkaProducer {
  let current = openProducer(o.kafka);
  /** Replaced, with something still under way: closed before, they would open their connections again. */
  const retired = new Set<OpenProducer>();
  const lanes = new Map<string, Lane>();

  function laneOf(topic: string, partition: number): Lane {
    const name = `${topic}/${partition}`;
    const lane = lanes.get(name) ?? { topic, partition, waiting: [], isSending: false };
    lanes.set(name, lane);
    return lane;
  }

  async function drain(lane: Lane): Promise<void> {
    if (lane.isSending) return;
    lane.isSending = true;
    // What is published in this turn of the event loop goes out in one send.
    await setImmediate();
    while (lane.waiting.length > 0) {
      const batch = takeSend(lane.waiting);
      try {
        await send(lane, batch);
        for (const { resolve } of batch) resolve();
      } catch (error) {
        // What stands behind must not overtake what failed: its publisher sends all of it again.
        for (const { reject } of [...batch, ...lane.waiting.splice(0)]) reject(error);
        o.topics.check(lane.topic);
      }
    }
    lane.isSending = false;
  }

  async function send(lane: Lane, batch: readonly Waiting[]): Promise<void> {
    const used = current;
    used.sends += 1;
    const sending = sendWith(used, lane, batch).finally(() => {
      used.sends -= 1;
      closeIfDone(used);
    });
    try {
      if (!(await within(ANSWER_MS, sending))) throw new UnansweredError(lane);
      used.hasPublished = true;
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
    // Not awaited: a broker that hangs may keep it.
    if (one.sends === 0 && retired.delete(one)) one.producer.disconnect().catch(() => {});
  }

  async function sendWith(
    { producer, connect }: OpenProducer,
    { topic, partition }: Lane,
    batch: readonly Waiting[],
  ): Promise<void> {
    await connect();
    const answers = await producer.send({
      topic,
      acks: -1,
      timeout: ACK_TIMEOUT_MS,
      messages: batch.map(({ record }) => ({
        partition,
        key: record.key,
        value: Buffer.from(record.value),
        headers: { ...record.headers },
      })),
    });
    // A send to a partition without a leader resolves all the same, with nothing written.
    const answer = answers.find((candidate) => candidate.partition === partition);
    if (answer?.errorCode !== 0) throw new Error(`${topic}/${partition} was not acknowledged`);
  }

  return {
    async publish(topic, records) {
      if (records.length === 0) return;
      const count = await o.topics.partitions(topic);
      const done = records.map(
        (record) =>
          new Promise<void>((resolve, reject) => {
            const lane = laneOf(topic, murmur2(record.key) % count);
            lane.waiting.push({ record, resolve, reject });
          }),
      );
      const partitions = new Set(records.map((record) => murmur2(record.key) % count));
      // Not awaited: a lane goes on with the records of others. Failures reach `done`.
      for (const partition of partitions) drain(laneOf(topic, partition)).catch(() => {});
      await Promise.all(done);
    },
    async close() {
      await Promise.all([current, ...retired].map(({ producer }) => producer.disconnect()));
    },
  };
}

interface OpenProducer {
  readonly producer: Producer;
  readonly connect: () => Promise<void>;
  /** Under way. */
  sends: number;
  hasPublished: boolean;
}

function openProducer(kafka: Kafka): OpenProducer {
  const producer = kafka.producer({
    allowAutoTopicCreation: false,
    // One at a time per partition is enough for order; `idempotent` loses and doubles.
    idempotent: false,
    createPartitioner:
      () =>
      ({ message }) =>
        chosen(message.partition),
  });
  return { producer, connect: connector(producer), sends: 0, hasPublished: false };
}

/** A broker took the records and did not answer in time. They may be there. */
class UnansweredError extends Error {
  constructor({ topic, partition }: Lane) {
    super(`${topic}/${partition} was not acknowledged within ${ANSWER_MS} ms`);
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

function takeSend(waiting: Waiting[]): Waiting[] {
  let bytes = 0;
  let count = 0;
  for (const { record } of waiting) {
    bytes += record.value.length + record.key.length + RECORD_OVERHEAD_BYTES;
    if (count > 0 && (bytes > MAX_SEND_BYTES || count >= MAX_SEND_RECORDS)) break;
    count += 1;
  }
  return waiting.splice(0, count);
}
