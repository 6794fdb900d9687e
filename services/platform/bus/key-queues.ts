import type { ReceivedRecord } from './event-bus.ts';

/** A record for a handler, and the callback when it is completed. */
export interface PendingRecord {
  readonly record: ReceivedRecord;
  readonly done: () => void;
}

const MAX_BATCH_BYTES = 8 * 1024 * 1024;

/** Records that are not completed. They are in order within their key. */
export class KeyQueues {
  readonly #batchSize: number;
  readonly #queues = new Map<string, PendingRecord[]>();
  /** The busy keys, with the number of records that each has in the handler. A key that waits after a failure has 0. */
  readonly #busy = new Map<string, number>();
  /** Keys whose batch failed, with the number of failures of each key when it was tried alone. */
  readonly #suspects = new Map<string, number>();
  #bytes = 0;

  /** @param batchSize maximum number of records in one batch. */
  constructor(batchSize: number) {
    this.#batchSize = batchSize;
  }

  /** Total size of the values of all records. */
  get bytes(): number {
    return this.#bytes;
  }

  push(pending: readonly PendingRecord[]): void {
    for (const pendingRecord of pending) {
      const key = keyOf(pendingRecord.record);
      const queue = this.#queues.get(key);
      this.#bytes += pendingRecord.record.value.length;
      if (queue) queue.push(pendingRecord);
      else this.#queues.set(key, [pendingRecord]);
    }
  }

  /** Returns the keys of the next batch: one key of a failed batch, or as many other keys as fit into a batch. */
  next(): string[] {
    const keys: string[] = [];
    let count = 0;
    for (const [key, queue] of this.#queues) {
      if (this.#busy.has(key)) continue;
      if (this.#suspects.has(key)) {
        if (keys.length > 0) continue;
        return [key];
      }
      keys.push(key);
      count += queue.length;
      if (count >= this.#batchSize) break;
    }
    return keys;
  }

  /** Returns the next records of these keys. The keys are busy until {@link free}. */
  take(keys: readonly string[]): PendingRecord[] {
    const batch: PendingRecord[] = [];
    let size = 0;
    const maxRecords = this.#batchSize;
    for (const candidate of keys.flatMap(
      (key) => this.#queues.get(key)?.slice(0, maxRecords) ?? [],
    )) {
      size += candidate.record.value.length;
      if (batch.length > 0 && (batch.length >= maxRecords || size > MAX_BATCH_BYTES)) break;
      batch.push(candidate);
    }
    for (const { record } of batch) {
      const key = keyOf(record);
      this.#busy.set(key, (this.#busy.get(key) ?? 0) + 1);
    }
    return batch;
  }

  complete(batch: readonly PendingRecord[]): void {
    for (const { record, done } of batch) {
      const key = keyOf(record);
      const queue = this.#queues.get(key);
      queue?.shift();
      this.#bytes -= record.value.length;
      this.#suspects.delete(key);
      if (queue?.length === 0) this.#queues.delete(key);
      done();
    }
  }

  /** Marks the keys of a failed batch. Each is then tried alone. */
  suspect(keys: Iterable<string>): void {
    for (const key of keys) this.#suspects.set(key, 0);
  }

  /**
   * Notes that a key failed alone, and that its records have left the handler. Returns the number of failures of the
   * key.
   */
  noteFailure(key: string): number {
    const failures = (this.#suspects.get(key) ?? 0) + 1;
    this.#suspects.set(key, failures);
    this.#busy.set(key, 0);
    return failures;
  }

  free(keys: Iterable<string>): void {
    for (const key of keys) this.#busy.delete(key);
  }

  /** Drops the records that are not in the handler. */
  dropQueued(): void {
    this.#bytes = 0;
    for (const [key, queue] of this.#queues) {
      queue.length = this.#busy.get(key) ?? 0;
      for (const { record } of queue) this.#bytes += record.value.length;
      if (queue.length === 0) this.#queues.delete(key);
      if (!this.#busy.has(key)) this.#suspects.delete(key);
    }
  }

  /** Removes and returns all records. */
  clear(): PendingRecord[] {
    const records = [...this.#queues.values()].flat();
    this.#queues.clear();
    return records;
  }
}

export function keyOf(record: ReceivedRecord): string {
  return `${record.topic}\n${record.key}`;
}
