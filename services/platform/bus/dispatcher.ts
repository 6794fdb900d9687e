import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, createBackoff, equalJitter } from '../backoff.ts';
import { type ReceivedRecord, RetryLaterError } from './event-bus.ts';

/** A record for a handler, with the callback for its completion. */
export interface Delivery {
  readonly record: ReceivedRecord;
  readonly done: () => void;
}

export interface DispatcherOptions {
  readonly handle: (records: readonly ReceivedRecord[]) => Promise<void>;
  readonly onFailure?: (error: unknown, records: readonly ReceivedRecord[]) => void;
  /** Most parallel calls of the handler. */
  readonly concurrency?: number;
  /**
   * A further call starts only when the open calls have lasted this long. Until then new records are collected for the
   * next call. A slow call delays other keys by no more than this. Milliseconds; 0 by default.
   */
  readonly besideAfterMs?: number;
  /**
   * How long the first call waits for further records, so that records which arrive in parts share one call.
   * Milliseconds; 0 by default.
   */
  readonly gatherMs?: number;
  /** Most records in one call. */
  readonly batchSize?: number;
  /** The pause of a key after its failures in a row; 100 ms to 5 s by default. */
  readonly backoff?: Backoff;
}

export interface Dispatcher {
  push(deliveries: readonly Delivery[]): void;
  /** Total size of the values of all records that are pushed and not completed. */
  bytes(): number;
  /** Drops the records that are not with the handler. They will be pushed again, or belong to another process now. */
  dropQueued(): void;
  /** Starts no more calls, waits for those in flight, and returns the records that were not completed. */
  stop(): Promise<Delivery[]>;
}

const MAX_BATCH_BYTES = 8 * 1024 * 1024;
const BACKOFF = createBackoff({ firstMs: 100, longestMs: 5_000, jitter: equalJitter });

/**
 * Passes records to a handler in batches: in order within a key, different keys in parallel. When a batch fails, its
 * keys are retried one by one, and only a key that fails again waits.
 */
export function createDispatcher(o: DispatcherOptions): Dispatcher {
  const concurrency = o.concurrency ?? 4;
  const batchSize = o.batchSize ?? 100;
  const besideAfterMs = o.besideAfterMs ?? 0;
  const gatherMs = o.gatherMs ?? 0;
  const queues = new Map<string, Delivery[]>();
  /** How many records of each key are with the handler. A key that waits after a failure has none. */
  const busy = new Map<string, number>();
  const suspects = new Map<string, number>();
  const calls = new Set<Promise<void>>();
  const stopping = new AbortController();
  let running = 0;
  let bytes = 0;
  /** Start times of the calls in flight. */
  const begun = new Set<number>();
  let later: NodeJS.Timeout | undefined;
  /** When the records that arrived while no call was in flight have waited long enough. */
  let gatheredAt: number | undefined;

  function pump(): void {
    clearTimeout(later);
    while (running < concurrency && !stopping.signal.aborted) {
      const keys = nextKeys();
      if (keys.length === 0) return;
      const beginAt = begun.size > 0 ? Math.max(...begun) + besideAfterMs : (gatheredAt ?? 0);
      const patienceMs = beginAt - performance.now();
      if (patienceMs > 0) {
        later = setTimeout(pump, patienceMs);
        return;
      }
      const call = run(keys).finally(() => calls.delete(call));
      calls.add(call);
    }
  }

  /** Keys of a failed batch go alone. Of the others, as many as fit into a batch. */
  function nextKeys(): string[] {
    const keys: string[] = [];
    let count = 0;
    for (const [key, queue] of queues) {
      if (busy.has(key)) continue;
      if (suspects.has(key)) {
        if (keys.length > 0) continue;
        return [key];
      }
      keys.push(key);
      count += queue.length;
      if (count >= batchSize) break;
    }
    return keys;
  }

  async function run(keys: readonly string[]): Promise<void> {
    const batch = takeBatch(keys);
    const taken = new Set(batch.map(({ record }) => keyOf(record)));
    for (const { record } of batch) busy.set(keyOf(record), (busy.get(keyOf(record)) ?? 0) + 1);
    const startedMs = performance.now();
    running += 1;
    gatheredAt = undefined;
    begun.add(startedMs);
    const error = await attempt(batch);
    running -= 1;
    begun.delete(startedMs);
    const [key = '', ...others] = taken;
    if (error === undefined) complete(batch);
    else if (others.length === 0) await rest(key, error);
    else for (const suspect of taken) suspects.set(suspect, 0);
    for (const one of taken) busy.delete(one);
    pump();
  }

  function takeBatch(keys: readonly string[]): Delivery[] {
    const batch: Delivery[] = [];
    let size = 0;
    for (const delivery of keys.flatMap((key) => queues.get(key)?.slice(0, batchSize) ?? [])) {
      size += delivery.record.value.length;
      if (batch.length > 0 && (batch.length >= batchSize || size > MAX_BATCH_BYTES)) break;
      batch.push(delivery);
    }
    return batch;
  }

  async function attempt(batch: readonly Delivery[]): Promise<unknown> {
    const records = batch.map((delivery) => delivery.record);
    try {
      await o.handle(records);
      return undefined;
    } catch (error) {
      o.onFailure?.(error, records);
      return error ?? new Error('the handler rejected without a reason');
    }
  }

  function complete(batch: readonly Delivery[]): void {
    for (const { record, done } of batch) {
      const key = keyOf(record);
      const queue = queues.get(key);
      queue?.shift();
      bytes -= record.value.length;
      suspects.delete(key);
      if (queue?.length === 0) queues.delete(key);
      done();
    }
  }

  /** Pauses a key after its failure, longer each time. Other keys continue. */
  async function rest(key: string, error: unknown): Promise<void> {
    const failures = (suspects.get(key) ?? 0) + 1;
    suspects.set(key, failures);
    busy.set(key, 0);
    const backoff = o.backoff ?? BACKOFF;
    const pauseMs = error instanceof RetryLaterError ? error.pauseMs : backoff(failures);
    pump();
    await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
  }

  return {
    push(deliveries) {
      if (running === 0) gatheredAt ??= performance.now() + gatherMs;
      for (const delivery of deliveries) {
        const key = keyOf(delivery.record);
        const queue = queues.get(key);
        bytes += delivery.record.value.length;
        if (queue) queue.push(delivery);
        else queues.set(key, [delivery]);
      }
      pump();
    },
    bytes: () => bytes,
    dropQueued() {
      bytes = 0;
      for (const [key, queue] of queues) {
        queue.length = busy.get(key) ?? 0;
        for (const { record } of queue) bytes += record.value.length;
        if (queue.length === 0) queues.delete(key);
        if (!busy.has(key)) suspects.delete(key);
      }
    },
    async stop() {
      stopping.abort();
      clearTimeout(later);
      await Promise.all(calls);
      const left = [...queues.values()].flat();
      queues.clear();
      return left;
    },
  };
}

function keyOf(record: ReceivedRecord): string {
  return `${record.topic}\n${record.key}`;
}
