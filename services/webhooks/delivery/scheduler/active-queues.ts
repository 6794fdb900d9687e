import type { EndpointHealth } from '../endpoint/circuit-breaker.ts';
import type { Due } from '../queue/read-due.ts';
import type { StoredQueue } from '../queue/ready-queues.ts';
import type { Target } from '../queue/targets.ts';
import {
  type ActiveQueue,
  isDue,
  markDue,
  markRetriesDue,
  noteRetry,
  takesFresh,
  toActive,
} from './active-queue.ts';
import type { HealthClass } from './capacity.ts';
import { LoadedEndpoints } from './loaded-endpoints.ts';

/** Maximum number of queues in the memory of a process. Above half of it, idle queues are unloaded at once. */
export const MAX_ACTIVE_QUEUES = 2_000;

/**
 * How long a fresh delivery may wait in memory for its start. After this time it is read from the table like other
 * deliveries, with its address and body at that moment. Milliseconds.
 */
const MAX_FRESH_MS = 250;
/** Maximum size of the fresh deliveries of all queues. Bytes. */
const MAX_FRESH_BYTES = 8 * 1024 * 1024;
/** Maximum number of removed queues for which the last read is in memory. */
const MAX_READS_OF_REMOVED = 20_000;
/** Maximum number of pairs of shop and health class for which the last grant is in memory. */
const MAX_GRANTS = 20_000;

/** The queues from which this process sends, and the health of their endpoints. */
export class ActiveQueues {
  readonly endpoints = new LoadedEndpoints();
  readonly #queues = new Map<string, ActiveQueue>();
  readonly #lastGrants = new Map<string, number>();
  #grants = 0;
  #freshBytes = 0;
  /** When the last read of each removed queue ended. The last reads of other queues ended before `#mapClearedMs`. */
  readonly #readsOfRemoved = new Map<string, number>();
  #mapClearedMs = Number.NEGATIVE_INFINITY;

  get queues(): ReadonlyMap<string, ActiveQueue> {
    return this.#queues;
  }

  /** Returns the queues that may have due work. */
  due(): ActiveQueue[] {
    const now = performance.now();
    const due: ActiveQueue[] = [];
    for (const queue of this.#queues.values()) {
      if (queue.fresh.length > 0 && queue.freshSinceMs < now - MAX_FRESH_MS)
        queue.hasDueWork = true;
      markRetriesDue(queue, now);
      if (queue.hasDueWork) this.takeFresh(queue, Number.POSITIVE_INFINITY);
      if (isDue(queue)) due.push(queue);
    }
    return due;
  }

  /** Adds deliveries that were just committed. Returns false when they must be read from the table. */
  addFresh(target: Target, deliveries: readonly Due[]): boolean {
    const bytes = deliveries.reduce((total, due) => total + due.bytes, 0);
    if (this.#freshBytes + bytes > MAX_FRESH_BYTES) return false;
    const loaded = this.#queues.get(target.key);
    if (loaded ? !takesFresh(loaded, target) : !target.wasEmpty) return false;
    // A read that ended after the queue was found may have returned these deliveries already. They may have been sent.
    if ((loaded?.readEndedMs ?? this.#lastReadOf(target.key)) >= target.foundAtMs) return false;
    if (!loaded && this.#queues.size >= MAX_ACTIVE_QUEUES) return false;
    const queue = loaded ?? this.#addEmpty(target);
    if (queue.fresh.length === 0) queue.freshSinceMs = performance.now();
    queue.fresh.push(...deliveries);
    this.#freshBytes += bytes;
    return true;
  }

  /** Removes and returns the first `limit` fresh deliveries. */
  takeFresh(queue: ActiveQueue, limit: number): Due[] {
    const taken = queue.fresh.splice(0, limit);
    for (const due of taken) this.#freshBytes -= due.bytes;
    return taken;
  }

  /** Adds a queue. It replaces a loaded queue only when the endpoint has changed. */
  add(stored: StoredQueue): void {
    if (this.#queues.get(stored.key)?.endpointId !== stored.endpointId) this.#add(stored);
  }

  #add(stored: StoredQueue): ActiveQueue {
    this.remove(stored.key);
    const queue = toActive(stored, this.#lastReadOf(stored.key));
    this.#queues.set(queue.key, queue);
    this.endpoints.add(queue);
    return queue;
  }

  #addEmpty(stored: StoredQueue): ActiveQueue {
    const queue = this.#add(stored);
    queue.hasDueWork = false;
    queue.fullScanAtMs = performance.now();
    return queue;
  }

  remove(key: string): void {
    const queue = this.#queues.get(key);
    if (!queue) return;
    this.#queues.delete(key);
    this.#noteLastRead(queue);
    this.takeFresh(queue, Number.POSITIVE_INFINITY);
    this.endpoints.remove(queue.endpointKey);
  }

  /** Returns when the last read of a queue that is not loaded ended. It may return a later time. */
  #lastReadOf(key: string): number {
    return this.#readsOfRemoved.get(key) ?? this.#mapClearedMs;
  }

  #noteLastRead({ key, readEndedMs }: ActiveQueue): void {
    if (this.#readsOfRemoved.size >= MAX_READS_OF_REMOVED) {
      this.#readsOfRemoved.clear();
      this.#mapClearedMs = performance.now();
    }
    this.#readsOfRemoved.delete(key);
    this.#readsOfRemoved.set(key, readEndedMs);
  }

  /** Removes the queues and endpoints of other shards, because other processes send for those. */
  keepOnly(shards: readonly number[]): void {
    for (const { key, shard } of this.#queues.values()) {
      if (!shards.includes(shard)) this.remove(key);
    }
    this.endpoints.keepOnly(shards);
  }

  /** Resets the failures of an endpoint. */
  reset(endpointKey: string): void {
    this.endpoints.reset(endpointKey);
    this.#markDue(endpointKey);
  }

  /** Makes the next probe of an endpoint due now, see {@link LoadedEndpoints.probeNow}. */
  probeNow(endpointKey: string, retryNowMs: number): EndpointHealth | undefined {
    const health = this.endpoints.probeNow(endpointKey, retryNowMs);
    if (health) this.#markDue(endpointKey);
    return health;
  }

  #markDue(endpointKey: string): void {
    for (const queue of this.#queues.values()) {
      if (queue.endpointKey === endpointKey) markDue(queue);
    }
  }

  /** Notes that the fair share has granted an attempt to the queue, and so to its shop. */
  noteGrant(queue: ActiveQueue, healthClass: HealthClass): void {
    this.#grants += 1;
    queue.lastGrant = this.#grants;
    if (this.#lastGrants.size >= MAX_GRANTS) this.#lastGrants.clear();
    this.#lastGrants.set(`${queue.shopId} ${healthClass}`, this.#grants);
  }

  lastGrantOf(shopId: bigint, healthClass: HealthClass): number {
    return this.#lastGrants.get(`${shopId} ${healthClass}`) ?? 0;
  }

  /** Notes that an attempt failed and was recorded. Its delivery is due again after the pause. Milliseconds. */
  noteRetry(key: string, pauseMs: number): void {
    const queue = this.#queues.get(key);
    if (queue) noteRetry(queue, pauseMs);
  }

  /** Notes that an attempt of the queue has ended. A queue without due work is idle from now on. */
  noteIdle(key: string): void {
    const queue = this.#queues.get(key);
    if (queue) queue.idleSinceMs = performance.now();
  }
}
