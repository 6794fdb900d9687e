import type { BusRecord } from './event-bus.ts';

/** Maximum number of bytes in one send. With its framing, a send stays below the limit of the broker. */
const MAX_SEND_BYTES = 1_000_000;
const MAX_SEND_RECORDS = 500;
const RECORD_OVERHEAD_BYTES = 200;

/** A record that waits to be sent, and the functions that resolve or reject the promise of its publisher. */
export interface Waiting {
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
export interface SendQueues {
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
