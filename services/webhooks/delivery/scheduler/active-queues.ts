import type { Due } from '../queue/read-due.ts';
import type { StoredQueue } from '../queue/ready-queues.ts';
import type { Target } from '../queue/targets.ts';
import { type ActiveQueue, isDue, markDue, takesFresh, toActive } from './active-queue.ts';
import type { HealthClass } from './capacity.ts';
import { LoadedEndpoints } from './loaded-endpoints.ts';

/** Maximum number of queues of a process. Above half of it, idle queues are unloaded at once. */
export const MAX_ACTIVE_QUEUES = 2_000;

/**
 * Fresh deliveries that did not start within this time are read from the table like others, with their address and body
 * at that moment. Milliseconds.
 */
const MAX_FRESH_MS = 250;
/** For all queues together. */
const MAX_FRESH_BYTES = 8 * 1024 * 1024;
/** Maximum number of removed queues of which the last read is in memory. */
const MAX_READS_OF_REMOVED = 20_000;
/** Maximum number of pairs of shop and health class whose last grant is in memory. */
const MAX_GRANTS = 20_000;

/** The queues from which this process sends, and the health of their endpoints. */
export class ActiveQueues {
  readonly endpoints = new LoadedEndpoints();
  readonly #queues = new Map<string, ActiveQueue>();
  readonly #lastGrants = new Map<string, number>();
  #grants = 0;
  #freshBytes = 0;
  /** When the last reads of removed queues ended. Those that are not here ended before `#forgottenReadsMs`. */
  readonly #readsOfRemoved = new Map<string, number>();
  #forgottenReadsMs = Number.NEGATIVE_INFINITY;

  get queues(): ReadonlyMap<string, ActiveQueue> {
    return this.#queues;
  }

  /** Queues that may have due work. */
  due(): ActiveQueue[] {
    const before = performance.now() - MAX_FRESH_MS;
    const due: ActiveQueue[] = [];
    for (const queue of this.#queues.values()) {
      if (queue.fresh.length > 0 && queue.freshSinceMs < before) queue.hasDueWork = true;
      if (queue.hasDueWork) this.takeFresh(queue, Number.POSITIVE_INFINITY);
      if (isDue(queue)) due.push(queue);
    }
    return due;
  }

  /** Adds deliveries that were just committed. Returns false when they must be read from the table instead. */
  addFresh(target: Target, deliveries: readonly Due[]): boolean {
    const bytes = deliveries.reduce((sum, due) => sum + due.bytes, 0);
    if (this.#freshBytes + bytes > MAX_FRESH_BYTES) return false;
    const known = this.#queues.get(target.key);
    if (known ? !takesFresh(known, target) : !target.wasEmpty) return false;
    // A read that ended after the queue was found may have seen the deliveries, and they may have been sent.
    if ((known?.readEndedMs ?? this.#lastReadOf(target.key)) >= target.foundAtMs) return false;
    if (!known && this.#queues.size >= MAX_ACTIVE_QUEUES) return false;
    const queue = known ?? this.#addEmpty(target);
    if (queue.fresh.length === 0) queue.freshSinceMs = performance.now();
    queue.fresh.push(...deliveries);
    this.#freshBytes += bytes;
    return true;
  }

  /** Removes and returns the first ones. */
  takeFresh(queue: ActiveQueue, most: number): Due[] {
    const taken = queue.fresh.splice(0, most);
    for (const due of taken) this.#freshBytes -= due.bytes;
    return taken;
  }

  /** Replaces a known queue only when its endpoint has changed. */
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

  /** When the last read of a queue that is not loaded ended, or a later time. */
  #lastReadOf(key: string): number {
    return this.#readsOfRemoved.get(key) ?? this.#forgottenReadsMs;
  }

  #noteLastRead({ key, readEndedMs }: ActiveQueue): void {
    if (this.#readsOfRemoved.size >= MAX_READS_OF_REMOVED) {
      this.#readsOfRemoved.clear();
      this.#forgottenReadsMs = performance.now();
    }
    this.#readsOfRemoved.delete(key);
    this.#readsOfRemoved.set(key, readEndedMs);
  }

  /** Removes queues and endpoints of other shards, for which other processes send. */
  keepOnly(shards: readonly number[]): void {
    for (const { key, shard } of this.#queues.values()) {
      if (!shards.includes(shard)) this.remove(key);
    }
    this.endpoints.keepOnly(shards);
  }

  /** Resets the failures of an endpoint. */
  reset(endpointKey: string): void {
    this.endpoints.reset(endpointKey);
    for (const queue of this.#queues.values()) {
      if (queue.endpointKey === endpointKey) markDue(queue);
    }
  }

  /** Notes that the queue and its shop got a grant. */
  noteGrant(queue: ActiveQueue, healthClass: HealthClass): void {
    this.#grants += 1;
    queue.lastGrant = this.#grants;
    if (this.#lastGrants.size >= MAX_GRANTS) this.#lastGrants.clear();
    this.#lastGrants.set(`${queue.shopId} ${healthClass}`, this.#grants);
  }

  lastGrantOf(shopId: bigint, healthClass: HealthClass): number {
    return this.#lastGrants.get(`${shopId} ${healthClass}`) ?? 0;
  }

  /** Marks the queue idle from now, unless it has more due work. */
  noteIdle(key: string): void {
    const queue = this.#queues.get(key);
    if (queue) queue.idleSinceMs = performance.now();
  }
}
