import type { Due } from '../queue/read-due.ts';
import type { HealthClass } from './capacity.ts';

/** An attempt that has started and whose result is not recorded yet. */
export interface TrackedAttempt {
  readonly due: Due;
  readonly queueKey: string;
  readonly endpointKey: string;
  readonly token: bigint;
  readonly healthClass: HealthClass;
  /** By the monotonic clock. Milliseconds. */
  readonly startedMs: number;
  isOpen: boolean;
  isSlow: boolean;
}

interface Count {
  open: number;
  slow: number;
}

/** An attempt that is open for longer counts as slow. Milliseconds. */
const SLOW_MS = 1_000;
const MIN_KEPT = 64;

/** The work in flight of this process: open requests, and results that are not recorded yet. */
export interface InFlightAttempts {
  begin(tracked: Omit<TrackedAttempt, 'isOpen' | 'isSlow'>): TrackedAttempt;
  /** The request has ended. Its result is not recorded yet. */
  complete(tracked: TrackedAttempt): void;
  /** The result is recorded. */
  remove(deliveryId: string): void;
  /** Marks attempts that have become slow. */
  markSlow(nowMs: number): void;
  /** All attempts, open or not. */
  size(): number;
  /** Number and bytes of attempts. Health classes count only open attempts, `all` counts every one. */
  load(): { readonly places: Held; readonly bytes: Held };
  ofEndpoint(key: string): { readonly open: number; readonly slow: number };
  ofQueue(key: string): ReadonlySet<string>;
  ofShard(shard: number): number;
  get(deliveryId: string): TrackedAttempt | undefined;
}

/** By health class; attempts that are open for more than a second count as slow. */
export type Held = Readonly<Record<HealthClass | 'all', number>>;

const NONE: Count = { open: 0, slow: 0 };
const EMPTY: ReadonlySet<string> = new Set();

export function createInFlightAttempts(): InFlightAttempts {
  const all = new Map<string, TrackedAttempt>();
  const endpoints = new Map<string, Count>();
  const queues = new Map<string, Set<string>>();
  const shards = new Map<number, number>();
  const places: Record<HealthClass, number> = { trusted: 0, new: 0, slow: 0, failing: 0 };
  const bytes = { ...places, all: 0 };
  /** Attempts that are not slow, oldest first. Includes ended ones, which are skipped. */
  let young: TrackedAttempt[] = [];
  let open = 0;

  const countOf = (key: string): Count => {
    const known = endpoints.get(key);
    if (known) return known;
    const fresh = { open: 0, slow: 0 };
    endpoints.set(key, fresh);
    return fresh;
  };
  const healthClassOf = (tracked: TrackedAttempt): HealthClass =>
    tracked.isSlow ? 'slow' : tracked.healthClass;

  function complete(tracked: TrackedAttempt): void {
    if (!tracked.isOpen) return;
    tracked.isOpen = false;
    open -= 1;
    places[healthClassOf(tracked)] -= 1;
    const count = countOf(tracked.endpointKey);
    count.open -= 1;
    if (tracked.isSlow) count.slow -= 1;
    if (count.open === 0) endpoints.delete(tracked.endpointKey);
    // A long attempt at the front must not keep the bodies of all later attempts in memory.
    if (young.length > MIN_KEPT && young.length > 2 * open)
      young = young.filter((one) => one.isOpen);
  }

  return {
    begin(given) {
      const tracked: TrackedAttempt = { ...given, isOpen: true, isSlow: false };
      const { due, queueKey, endpointKey } = tracked;
      all.set(due.id, tracked);
      countOf(endpointKey).open += 1;
      const queue = queues.get(queueKey);
      if (queue) queue.add(due.id);
      else queues.set(queueKey, new Set([due.id]));
      shards.set(due.shard, (shards.get(due.shard) ?? 0) + 1);
      places[tracked.healthClass] += 1;
      open += 1;
      bytes[tracked.healthClass] += due.bytes;
      bytes.all += due.bytes;
      young.push(tracked);
      return tracked;
    },
    complete,
    remove(deliveryId) {
      const tracked = all.get(deliveryId);
      if (!tracked) return;
      complete(tracked);
      all.delete(deliveryId);
      const { due, queueKey } = tracked;
      bytes[healthClassOf(tracked)] -= due.bytes;
      bytes.all -= due.bytes;
      const queue = queues.get(queueKey);
      queue?.delete(due.id);
      if (queue?.size === 0) queues.delete(queueKey);
      const left = (shards.get(due.shard) ?? 1) - 1;
      if (left === 0) shards.delete(due.shard);
      else shards.set(due.shard, left);
    },
    markSlow(nowMs) {
      let skipped = 0;
      for (const tracked of young) {
        if (tracked.isOpen && nowMs - tracked.startedMs < SLOW_MS) break;
        skipped += 1;
        if (!tracked.isOpen) continue;
        places[healthClassOf(tracked)] -= 1;
        bytes[healthClassOf(tracked)] -= tracked.due.bytes;
        tracked.isSlow = true;
        places.slow += 1;
        bytes.slow += tracked.due.bytes;
        countOf(tracked.endpointKey).slow += 1;
      }
      if (skipped > 0) young = young.slice(skipped);
    },
    size: () => all.size,
    load: () => ({ places: { ...places, all: all.size }, bytes }),
    ofEndpoint: (key) => endpoints.get(key) ?? NONE,
    ofQueue: (key) => queues.get(key) ?? EMPTY,
    ofShard: (shard) => shards.get(shard) ?? 0,
    get: (id) => all.get(id),
  };
}
