import { setTimeout as sleep } from 'node:timers/promises';
import { type ReceivedRecord, RetryLaterError } from '../bus/event-bus.ts';
import { KeyQueues, keyOf, type PendingRecord } from '../bus/key-queues.ts';
import { type Backoff, createBackoff, equalJitter } from '../process/backoff.ts';

export interface RecordBatchesOptions {
  readonly handle: (records: readonly ReceivedRecord[]) => Promise<void>;
  readonly onFailure?: (error: unknown, records: readonly ReceivedRecord[]) => void;
  /** Maximum number of parallel calls of the handler. */
  readonly concurrency?: number;
  /**
   * How long the latest call must have lasted before a parallel call starts. Until then new records wait for the next
   * call. So a slow call delays records of other keys by at most this time. Milliseconds; 0 by default.
   */
  readonly parallelAfterMs?: number;
  /**
   * How long the first call waits for more records, so that records that arrive in parts share one call. Milliseconds;
   * 0 by default.
   */
  readonly gatherMs?: number;
  /** Maximum number of records in one call. */
  readonly batchSize?: number;
  /** The pause of a key after it failed; 100 ms to 5 s by default. */
  readonly backoff?: Backoff;
}

const BACKOFF = createBackoff({ firstMs: 100, longestMs: 5_000, jitter: equalJitter });

/**
 * Passes records to a handler in batches. Records of one key are handled in order, and different keys in parallel. When
 * a batch fails, each of its keys is tried alone. Only a key that fails again waits.
 */
export class RecordBatches {
  readonly #o: RecordBatchesOptions;
  readonly #queues: KeyQueues;
  readonly #calls = new Set<Promise<void>>();
  /** Calls of the handler that have not returned. */
  readonly #inFlight = new Set<{ readonly startedMs: number }>();
  readonly #stopping = new AbortController();
  #later: NodeJS.Timeout | undefined;
  /** The time from which the next call may start. Set when records arrive while no call is in flight. */
  #gatheredAt: number | undefined;

  constructor(o: RecordBatchesOptions) {
    this.#o = o;
    this.#queues = new KeyQueues(o.batchSize ?? 100);
  }

  push(pending: readonly PendingRecord[]): void {
    if (this.#inFlight.size === 0) {
      this.#gatheredAt ??= performance.now() + (this.#o.gatherMs ?? 0);
    }
    this.#queues.push(pending);
    this.#pump();
  }

  /** Total size of the values of all records that were pushed and are not completed. */
  bytes(): number {
    return this.#queues.bytes;
  }

  /** Drops the records that are not in the handler. They arrive again, at this process or another. */
  dropQueued(): void {
    this.#queues.dropQueued();
  }

  /** Starts no more calls, waits for the calls in flight, and returns the records that are not completed. */
  async stop(): Promise<PendingRecord[]> {
    this.#stopping.abort();
    clearTimeout(this.#later);
    await Promise.all(this.#calls);
    return this.#queues.clear();
  }

  readonly #pump = (): void => {
    clearTimeout(this.#later);
    const concurrency = this.#o.concurrency ?? 4;
    while (this.#inFlight.size < concurrency && !this.#stopping.signal.aborted) {
      const keys = this.#queues.next();
      if (keys.length === 0) return;
      const waitMs = this.#beginAt() - performance.now();
      if (waitMs > 0) {
        this.#later = setTimeout(this.#pump, waitMs);
        return;
      }
      const call = this.#run(keys).finally(() => this.#calls.delete(call));
      this.#calls.add(call);
    }
  };

  /** The earliest time at which the next call may start, by the monotonic clock. Milliseconds. */
  #beginAt(): number {
    if (this.#inFlight.size === 0) return this.#gatheredAt ?? 0;
    const started = [...this.#inFlight].map(({ startedMs }) => startedMs);
    return Math.max(...started) + (this.#o.parallelAfterMs ?? 0);
  }

  async #run(keys: readonly string[]): Promise<void> {
    const batch = this.#queues.take(keys);
    const taken = new Set(batch.map(({ record }) => keyOf(record)));
    const call = { startedMs: performance.now() };
    this.#inFlight.add(call);
    this.#gatheredAt = undefined;
    const error = await this.#attempt(batch);
    this.#inFlight.delete(call);
    const [key = '', ...otherKeys] = taken;
    if (error === undefined) this.#queues.complete(batch);
    else if (otherKeys.length === 0) await this.#rest(key, error);
    else this.#queues.suspect(taken);
    this.#queues.free(taken);
    this.#pump();
  }

  async #attempt(batch: readonly PendingRecord[]): Promise<unknown> {
    const records = batch.map((one) => one.record);
    try {
      await this.#o.handle(records);
      return undefined;
    } catch (error) {
      this.#o.onFailure?.(error, records);
      return error ?? new Error('the handler rejected without a reason');
    }
  }

  /** Pauses a key that failed. Each pause of the key is longer than the one before. Other keys continue. */
  async #rest(key: string, error: unknown): Promise<void> {
    const failures = this.#queues.noteFailure(key);
    const backoff = this.#o.backoff ?? BACKOFF;
    const pauseMs = error instanceof RetryLaterError ? error.pauseMs : backoff(failures);
    this.#pump();
    await sleep(pauseMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}
