import type { Due } from '../queue/read-due.ts';
import type { HealthClass } from './fair-share.ts';

/** An attempt that was begun and is not written down yet. */
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

/** After so long an attempt counts as slow. Milliseconds. */
const SLOW_MS = 1_000;
const MIN_KEPT = 64;

/** What this process has under way: requests that are open, and outcomes that are not written down. */
export interface InFlightAttempts {
  begin(tracked: Omit<TrackedAttempt, 'isOpen' | 'isSlow'>): TrackedAttempt;
  /** The request has ended; its outcome is still to be written down. */
  complete(tracked: TrackedAttempt): void;
  /** Nothing is left of it. */
  end(tracked: TrackedAttempt): void;
  /** Finds those that have become slow. */
  age(nowMs: number): void;
  /** All, whether open or not yet written down. */
  size(): number;
  /** How many there are, those of a health class being open, and how many bytes of bodies are held. */
  load(): { readonly places: Held; readonly bytes: Held };
  ofEndpoint(key: string): { readonly open: number; readonly slow: number };
  ofQueue(key: string): ReadonlySet<string>;
  ofShard(shard: number): number;
  get(deliveryId: string): TrackedAttempt | undefined;
}

/** In all, and by health class: those that are open for long count as slow. */
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
  /** In the order of their beginnings; those that ended are passed over. */
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
    // One that stays open must not keep the bodies of all that came and went after it.
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
    end(tracked) {
      complete(tracked);
      const { due, queueKey } = tracked;
      if (!all.delete(due.id)) return;
      bytes[healthClassOf(tracked)] -= due.bytes;
      bytes.all -= due.bytes;
      const queue = queues.get(queueKey);
      queue?.delete(due.id);
      if (queue?.size === 0) queues.delete(queueKey);
      const left = (shards.get(due.shard) ?? 1) - 1;
      if (left === 0) shards.delete(due.shard);
      else shards.set(due.shard, left);
    },
    age(nowMs) {
      let passed = 0;
      for (const tracked of young) {
        if (tracked.isOpen && nowMs - tracked.startedMs < SLOW_MS) break;
        passed += 1;
        if (!tracked.isOpen) continue;
        places[healthClassOf(tracked)] -= 1;
        bytes[healthClassOf(tracked)] -= tracked.due.bytes;
        tracked.isSlow = true;
        places.slow += 1;
        bytes.slow += tracked.due.bytes;
        countOf(tracked.endpointKey).slow += 1;
      }
      if (passed > 0) young = young.slice(passed);
    },
    size: () => all.size,
    load: () => ({ places: { ...places, all: all.size }, bytes }),
    ofEndpoint: (key) => endpoints.get(key) ?? NONE,
    ofQueue: (key) => queues.get(key) ?? EMPTY,
    ofShard: (shard) => shards.get(shard) ?? 0,
    get: (id) => all.get(id),
  };
}
