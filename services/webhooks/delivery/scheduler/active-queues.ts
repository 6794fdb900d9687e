import {
  type AttemptEffect,
  afterAttempt,
  type EndpointHealth,
  maxOpen,
  NEW_ENDPOINT,
  withProbeAt,
} from '../endpoint/circuit-breaker.ts';
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
import type { EndpointCapacity, HealthClass } from './capacity.ts';

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

interface Loaded {
  readonly shard: number;
  health: EndpointHealth;
  /**
   * Number of queues and attempts that use the endpoint. When the last of them is gone, the endpoint is removed from
   * memory.
   */
  users: number;
}

/** An endpoint is trusted when its limit of attempts in flight is at least this. */
const TRUSTED_LIMIT = 3;

/** The health of the endpoints to which this process sends. */
class LoadedEndpoints {
  readonly #endpoints = new Map<string, Loaded>();

  /** Adds the endpoint of a loaded queue. Does not change the health of an endpoint that is already loaded. */
  add({ endpointKey, health, shard }: StoredQueue): void {
    const loaded = this.#endpoints.get(endpointKey);
    if (loaded) loaded.users += 1;
    else this.#endpoints.set(endpointKey, { health, shard, users: 1 });
  }

  /** Notes that a queue of the endpoint was removed from memory. */
  remove(key: string): void {
    const endpoint = this.#endpoints.get(key);
    if (endpoint) this.#release(key, endpoint);
  }

  /** Keeps the health of an endpoint in memory during an attempt, until the returned function is called. */
  keep(key: string): () => void {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint) return () => {};
    endpoint.users += 1;
    return () => this.#release(key, endpoint);
  }

  #release(key: string, endpoint: Loaded): void {
    endpoint.users -= 1;
    if (endpoint.users === 0 && this.#endpoints.get(key) === endpoint) this.#endpoints.delete(key);
  }

  /** Removes the endpoints of other shards. */
  keepOnly(shards: readonly number[]): void {
    for (const [key, { shard }] of this.#endpoints) {
      if (!shards.includes(shard)) this.#endpoints.delete(key);
    }
  }

  health(key: string): EndpointHealth | undefined {
    return this.#endpoints.get(key)?.health;
  }

  reset(key: string): void {
    const endpoint = this.#endpoints.get(key);
    if (endpoint) endpoint.health = NEW_ENDPOINT;
  }

  /**
   * Makes the next probe of an open circuit due now. Returns the new health; undefined when the circuit is closed.
   *
   * @param retryNowMs current time of the retry clock.
   */
  probeNow(key: string, retryNowMs: number): EndpointHealth | undefined {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint?.health.circuit) return undefined;
    endpoint.health = withProbeAt(endpoint.health, retryNowMs);
    return endpoint.health;
  }

  /**
   * Applies the result of an attempt to the health. Returns the new health, and whether the circuit has closed.
   * Returns undefined when the health did not change.
   */
  note(
    key: string,
    effect: AttemptEffect,
  ): { health: EndpointHealth; isClosed: boolean } | undefined {
    const endpoint = this.#endpoints.get(key);
    if (!endpoint) return undefined;
    const previous = endpoint.health;
    const health = afterAttempt(previous, effect);
    endpoint.health = health;
    if (health === previous) return undefined;
    return { health, isClosed: previous.circuit !== null && !health.circuit };
  }

  capacity(key: string, { open, slow }: { open: number; slow: number }): EndpointCapacity {
    const health = this.health(key);
    if (!health) return { free: 0, healthClass: 'failing' };
    const free = maxOpen(health) - open;
    return { free, healthClass: healthClassOf(health, slow) };
  }
}

function healthClassOf(health: EndpointHealth, slow: number): HealthClass {
  if (health.failures > 0 || health.circuit) return 'failing';
  if (slow > 0) return 'slow';
  return health.maxInFlight >= TRUSTED_LIMIT ? 'trusted' : 'new';
}
