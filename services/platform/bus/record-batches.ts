import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, createBackoff, equalJitter } from '../backoff.ts';
import { type ReceivedRecord, RetryLaterError } from './event-bus.ts';
import { KeyQueues, keyOf, type PendingRecord } from './key-queues.ts';

export interface RecordBatchesOptions {
  readonly handle: (records: readonly ReceivedRecord[]) => Promise<void>;
  readonly onFailure?: (error: unknown, records: readonly ReceivedRecord[]) => void;
  /** Maximum number of parallel calls of the handler. */
  readonly concurrency?: number;
  /**
   * A further call starts only when the latest call has lasted this long. Until then new records wait for the next call.
   * A slow call delays other keys by this time at most. Milliseconds; 0 by default.
   */
  readonly parallelAfterMs?: number;
  /**
   * The first call waits this long for further records, so that records which arrive in parts share one call.
   * Milliseconds; 0 by default.
   */
  readonly gatherMs?: number;
  /** Maximum number of records in one call. */
  readonly batchSize?: number;
  /** The pause of a key after its failures; 100 ms to 5 s by default. */
  readonly backoff?: Backoff;
}

const BACKOFF = createBackoff({ firstMs: 100, longestMs: 5_000, jitter: equalJitter });

/**
 * Passes records to a handler in batches: in order within a key, different keys in parallel. When a batch fails, its
 * keys are retried one by one, and only a key that fails again waits.
 */
export class RecordBatches {
  readonly #o: RecordBatchesOptions;
  readonly #queues: KeyQueues;
  readonly #calls = new Set<Promise<void>>();
  /** Calls of the handler that have not returned. */
  readonly #inFlight = new Set<{ readonly startedMs: number }>();
  readonly #stopping = new AbortController();
  #later: NodeJS.Timeout | undefined;
  /** The time from which the next call may start. Set by records that arrive while no call is in flight. */
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

  /** Total size of the values of all records that are pushed and not completed. */
  bytes(): number {
    return this.#queues.bytes;
  }

  /** Drops the records that are not in the handler. They will arrive again, here or at another process. */
  dropQueued(): void {
    this.#queues.dropQueued();
  }

  /** Starts no more calls, waits for calls in flight, and returns the records that were not completed. */
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

  /** The earliest time of the next call, by the monotonic clock. Milliseconds. */
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

  /** Pauses a key after its failure, longer each time. Other keys continue. */
  async #rest(key: string, error: unknown): Promise<void> {
    const failures = this.#queues.noteFailure(key);
    const backoff = this.#o.backoff ?? BACKOFF;
    const pauseMs = error instanceof RetryLaterError ? error.pauseMs : backoff(failures);
    this.#pump();
    await sleep(pauseMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}
