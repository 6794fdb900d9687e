import {
  afterAttempt,
  type EndpointHealth,
  heldUntil,
  NEW_ENDPOINT,
  type Sign,
} from '../endpoint/circuit-breaker.ts';
import type { Due, ReadMode } from '../queue/read-due.ts';
import type { StoredQueue, Unloading } from '../queue/ready-queues.ts';
import type { Target } from '../queue/targets.ts';
import type { EndpointCapacity, HealthClass } from './capacity.ts';

/** A queue from which this process sends. Times `...Ms` are by the monotonic clock, if not said otherwise. */
export interface ActiveQueue extends StoredQueue {
  readonly loadedAtMs: number;
  /** The queue may have due deliveries that were not read. */
  hasDueWork: boolean;
  /** Sequence number of its last grant by the fair share. */
  lastGrant: number;
  /**
   * Deliveries that were just committed. While `hasDueWork` is false they are all due deliveries of the queue. The
   * table also has them, so they are dropped when the queue has to be read.
   */
  readonly fresh: Due[];
  /** Since when the first of them has waited. */
  freshSinceMs: number;
  /** How many notifications of due work it got. */
  notifications: number;
  /** When its last read from the table ended; infinite during a read. */
  readEndedMs: number;
  /** Since when it has had no due work. */
  idleSinceMs: number;
  /** Read cursor: earlier due deliveries were read; by the retry clock. */
  freshFromMs: number;
  retriesFromMs: number;
  fullScanAtMs: number;
}

interface LoadedEndpoint {
  readonly shard: number;
  health: EndpointHealth;
  /** Number of its queues and attempts. The endpoint is removed with the last of them. */
  users: number;
}

/** Most queues of a process. Above half of it, idle queues are unloaded at once. */
export const MAX_ACTIVE_QUEUES = 2_000;

/**
 * Rows that commit late may be due before the read cursor, so each read starts this far back. Older ones are found by
 * the next full scan.
 */
const LATE_COMMIT_MS = 2_000;
const FULL_SCAN_EVERY_MS = 10_000;
/**
 * Fresh deliveries that did not start within this time are read from the table like others, with their address and body
 * at that moment. Milliseconds.
 */
const MAX_FRESH_MS = 250;
/** For all queues together. */
const MAX_FRESH_BYTES = 8 * 1024 * 1024;
const TRUSTED_CAP = 3;
/** Most removed queues of which the last read is in memory. */
const MAX_READS_OF_REMOVED = 20_000;
/** Most pairs of shop and health class whose last grant is in memory. */
const MAX_GRANTS = 20_000;

/** The queues from which this process sends, and the health of their endpoints. */
export interface ActiveQueues {
  readonly queues: ReadonlyMap<string, ActiveQueue>;
  /** Queues that may have due work. */
  due(): ActiveQueue[];
  /** Adds deliveries that were just committed. Returns false when they must be read from the table instead. */
  addFresh(target: Target, deliveries: readonly Due[]): boolean;
  /** Removes and returns the first ones. */
  takeFresh(queue: ActiveQueue, most: number): Due[];
  /** Replaces a known queue only when its endpoint has changed. */
  add(queue: StoredQueue): void;
  remove(key: string): void;
  /** Removes queues and endpoints of other shards, for which other processes send. */
  keepOnly(shards: readonly number[]): void;
  /** An attempt starts: keeps the health of its endpoint in memory until the returned function is called. */
  enter(endpointKey: string): () => void;
  /** Resets the failures of an endpoint. */
  reset(endpointKey: string): void;
  health(endpointKey: string): EndpointHealth | undefined;
  /**
   * Applies the outcome of an attempt. Returns the new health and whether the circuit closed; undefined when nothing
   * changed.
   */
  note(endpointKey: string, sign: Sign): { health: EndpointHealth; isClosed: boolean } | undefined;
  capacity(endpointKey: string, o: { open: number; slow: number }): EndpointCapacity;
  /** Notes that the queue and its shop got a grant. */
  noteGrant(queue: ActiveQueue, healthClass: HealthClass): void;
  /** Marks the queue idle from now, unless it has more due work. */
  noteIdle(key: string): void;
  lastGrantOf(shopId: bigint, healthClass: HealthClass): number;
}

export function createActiveQueues(): ActiveQueues {
  const queues = new Map<string, ActiveQueue>();
  const endpoints = new Map<string, LoadedEndpoint>();
  const lastGrants = new Map<string, number>();
  let grants = 0;
  let freshBytes = 0;
  /** When the last reads of removed queues ended. Those that are not here ended before `forgottenReadsMs`. */
  const readsOfRemoved = new Map<string, number>();
  let forgottenReadsMs = Number.NEGATIVE_INFINITY;

  function leave(key: string, endpoint: LoadedEndpoint): void {
    endpoint.users -= 1;
    if (endpoint.users === 0 && endpoints.get(key) === endpoint) endpoints.delete(key);
  }

  function remove(key: string): void {
    const queue = queues.get(key);
    if (!queue) return;
    queues.delete(key);
    if (readsOfRemoved.size >= MAX_READS_OF_REMOVED) {
      readsOfRemoved.clear();
      forgottenReadsMs = performance.now();
    }
    readsOfRemoved.delete(key);
    readsOfRemoved.set(key, queue.readEndedMs);
    takeFresh(queue, Number.POSITIVE_INFINITY);
    const endpoint = endpoints.get(queue.endpointKey);
    if (endpoint) leave(queue.endpointKey, endpoint);
  }

  function add(stored: StoredQueue): ActiveQueue {
    remove(stored.key);
    const queue = {
      ...stored,
      loadedAtMs: performance.now(),
      hasDueWork: true,
      fresh: [],
      freshSinceMs: 0,
      lastGrant: 0,
      notifications: 0,
      readEndedMs: readsOfRemoved.get(stored.key) ?? forgottenReadsMs,
      idleSinceMs: performance.now(),
      freshFromMs: 0,
      retriesFromMs: 0,
      fullScanAtMs: Number.NEGATIVE_INFINITY,
    };
    queues.set(queue.key, queue);
    const known = endpoints.get(queue.endpointKey);
    const { health, shard } = queue;
    if (known) known.users += 1;
    else endpoints.set(queue.endpointKey, { health, shard, users: 1 });
    return queue;
  }

  function addEmpty(stored: StoredQueue): ActiveQueue {
    const queue = add(stored);
    queue.hasDueWork = false;
    queue.fullScanAtMs = performance.now();
    return queue;
  }

  function takeFresh(queue: ActiveQueue, most: number): Due[] {
    const taken = queue.fresh.splice(0, most);
    for (const due of taken) freshBytes -= due.bytes;
    return taken;
  }

  return {
    queues,
    due() {
      const before = performance.now() - MAX_FRESH_MS;
      const due: ActiveQueue[] = [];
      for (const queue of queues.values()) {
        if (queue.fresh.length > 0 && queue.freshSinceMs < before) queue.hasDueWork = true;
        if (queue.hasDueWork) takeFresh(queue, Number.POSITIVE_INFINITY);
        if (isDue(queue)) due.push(queue);
      }
      return due;
    },
    addFresh(target, deliveries) {
      const bytes = deliveries.reduce((sum, due) => sum + due.bytes, 0);
      if (freshBytes + bytes > MAX_FRESH_BYTES) return false;
      const known = queues.get(target.key);
      if (known ? !takesFresh(known, target) : !target.wasEmpty) return false;
      // A read that ended after the queue was found may have seen the deliveries, and they may have been sent.
      const readEndedMs = (known ?? { readEndedMs: readsOfRemoved.get(target.key) }).readEndedMs;
      if ((readEndedMs ?? forgottenReadsMs) >= target.foundAtMs) return false;
      if (!known && queues.size >= MAX_ACTIVE_QUEUES) return false;
      const queue = known ?? addEmpty(target);
      if (queue.fresh.length === 0) queue.freshSinceMs = performance.now();
      queue.fresh.push(...deliveries);
      freshBytes += bytes;
      return true;
    },
    takeFresh,
    add(queue) {
      if (queues.get(queue.key)?.endpointId !== queue.endpointId) add(queue);
    },
    remove,
    keepOnly(shards) {
      for (const queue of queues.values()) if (!shards.includes(queue.shard)) remove(queue.key);
      for (const [key, { shard }] of endpoints) if (!shards.includes(shard)) endpoints.delete(key);
    },
    enter(key) {
      const endpoint = endpoints.get(key);
      if (!endpoint) return () => {};
      endpoint.users += 1;
      return () => leave(key, endpoint);
    },
    reset(key) {
      const endpoint = endpoints.get(key);
      if (!endpoint) return;
      endpoint.health = NEW_ENDPOINT;
      for (const queue of queues.values()) if (queue.endpointKey === key) markDue(queue);
    },
    health: (key) => endpoints.get(key)?.health,
    note(key, sign) {
      const endpoint = endpoints.get(key);
      if (!endpoint) return undefined;
      const before = endpoint.health;
      endpoint.health = afterAttempt(before, sign);
      if (endpoint.health === before) return undefined;
      return {
        health: endpoint.health,
        isClosed: before.circuit !== null && !endpoint.health.circuit,
      };
    },
    capacity(key, { open, slow }) {
      const health = endpoints.get(key)?.health;
      if (!health) return { free: 0, healthClass: 'failing' };
      const free = health.circuit ? 1 - open : health.maxInFlight - open;
      return { free, healthClass: healthClassOf(health, slow) };
    },
    noteGrant(queue, healthClass) {
      grants += 1;
      queue.lastGrant = grants;
      if (lastGrants.size >= MAX_GRANTS) lastGrants.clear();
      lastGrants.set(`${queue.shopId} ${healthClass}`, grants);
    },
    noteIdle(key) {
      const queue = queues.get(key);
      if (queue) queue.idleSinceMs = performance.now();
    },
    lastGrantOf: (shopId, healthClass) => lastGrants.get(`${shopId} ${healthClass}`) ?? 0,
  };
}

export function healthClassOf(health: EndpointHealth, slow: number): HealthClass {
  if (health.failures > 0 || health.circuit) return 'failing';
  if (slow > 0) return 'slow';
  return health.maxInFlight >= TRUSTED_CAP ? 'trusted' : 'new';
}

/** Which read mode applies now. @param retryNowMs by the retry clock. */
export function modeOf(health: EndpointHealth | undefined, retryNowMs: number): ReadMode {
  if (!health?.circuit) return 'all';
  return retryNowMs >= heldUntil(health.circuit, retryNowMs) ? 'any-probe' : 'oldest-probe';
}

/** Where to start reading; regularly at the beginning of the queue. */
export function startOf(queue: ActiveQueue): { freshFromMs: number; retriesFromMs: number } {
  const now = performance.now();
  if (now - queue.fullScanAtMs > FULL_SCAN_EVERY_MS) {
    queue.fullScanAtMs = now;
    // The next read sets them again. After the database's clock was set back they would be in the future.
    queue.freshFromMs = 0;
    queue.retriesFromMs = 0;
  }
  return { freshFromMs: queue.freshFromMs, retriesFromMs: queue.retriesFromMs };
}

/** Whether all due work of the queue is known, so that it need not be read from the beginning. */
function takesFresh(queue: ActiveQueue, { endpointId }: Target): boolean {
  const isScanned = performance.now() - queue.fullScanAtMs <= FULL_SCAN_EVERY_MS;
  return !queue.hasDueWork && isScanned && queue.endpointId === endpointId;
}

/** Moves the read cursor, never into the future. @param retryNowMs by the retry clock. */
export function noteRead(queue: ActiveQueue, { isRetry, dueAtMs }: Due, retryNowMs: number): void {
  const from = Math.min(dueAtMs, retryNowMs) - LATE_COMMIT_MS;
  if (isRetry) queue.retriesFromMs = Math.max(queue.retriesFromMs, from);
  else queue.freshFromMs = Math.max(queue.freshFromMs, from);
}

/** Whether the queue has or may have due work. */
export function isDue({ hasDueWork, fresh }: ActiveQueue): boolean {
  return hasDueWork || fresh.length > 0;
}

/** The queue has due work, at any position. */
export function markDue(queue: ActiveQueue): void {
  queue.hasDueWork = true;
  queue.notifications += 1;
}

/** @param retryNowMs by the retry clock. */
export function unloadingOf(
  queue: ActiveQueue,
  health: EndpointHealth | undefined,
  retryNowMs: number,
): Unloading {
  const { shopId, subscriptionId, endpointId } = queue;
  const heldUntilMs = health?.circuit ? heldUntil(health.circuit, retryNowMs) : null;
  return { shopId, subscriptionId, endpointId, heldUntilMs };
}
