import type { Due } from '../queue/read-due.ts';
import type { HealthClass } from './capacity.ts';

/** An attempt from its start until its result is recorded. */
export interface TrackedAttempt {
  readonly due: Due;
  readonly queueKey: string;
  readonly endpointKey: string;
  readonly token: bigint;
  readonly healthClass: HealthClass;
  /** When it started, by the monotonic clock. Milliseconds. */
  readonly startedMs: number;
  isOpen: boolean;
  isSlow: boolean;
}

interface Count {
  open: number;
  slow: number;
}

/** An attempt counts as slow when it has been open for longer than this. Milliseconds. */
const SLOW_MS = 1_000;
/** Ended attempts stay in the list of young attempts as long as the list is not longer than this. */
const MIN_KEPT = 64;

/** Numbers of attempts, or of bytes, by health class. */
export type Usage = Readonly<Record<HealthClass | 'all', number>>;

const NONE: Count = { open: 0, slow: 0 };
const EMPTY: ReadonlySet<string> = new Set();

/** The work in flight of this process: open requests, and results that are not recorded yet. */
export class InFlightAttempts {
  readonly #all = new Map<string, TrackedAttempt>();
  readonly #endpoints = new Map<string, Count>();
  readonly #queues = new Map<string, Set<string>>();
  readonly #shards = new Map<number, number>();
  readonly #attempts: Record<HealthClass, number> = { trusted: 0, new: 0, slow: 0, failing: 0 };
  readonly #bytes = { trusted: 0, new: 0, slow: 0, failing: 0, all: 0 };
  /** Attempts that are not slow, oldest first. The list may have ended attempts, which `markSlow` skips. */
  #young: TrackedAttempt[] = [];
  #open = 0;

  begin(attempt: Omit<TrackedAttempt, 'isOpen' | 'isSlow'>): TrackedAttempt {
    const tracked: TrackedAttempt = { ...attempt, isOpen: true, isSlow: false };
    const { due, queueKey, healthClass } = tracked;
    this.#all.set(due.id, tracked);
    this.#countOf(tracked.endpointKey).open += 1;
    const queue = this.#queues.get(queueKey);
    if (queue) queue.add(due.id);
    else this.#queues.set(queueKey, new Set([due.id]));
    this.#shards.set(due.shard, this.ofShard(due.shard) + 1);
    this.#attempts[healthClass] += 1;
    this.#open += 1;
    this.#bytes[healthClass] += due.bytes;
    this.#bytes.all += due.bytes;
    this.#young.push(tracked);
    return tracked;
  }

  /** Notes that the request has ended. The result is not recorded yet. */
  complete(tracked: TrackedAttempt): void {
    if (!tracked.isOpen) return;
    tracked.isOpen = false;
    this.#open -= 1;
    this.#attempts[healthClassOf(tracked)] -= 1;
    const count = this.#countOf(tracked.endpointKey);
    count.open -= 1;
    if (tracked.isSlow) count.slow -= 1;
    if (count.open === 0) this.#endpoints.delete(tracked.endpointKey);
    // Remove ended attempts. Otherwise, one long attempt at the front would keep the bodies of all later attempts in
    // memory.
    if (this.#young.length > MIN_KEPT && this.#young.length > 2 * this.#open)
      this.#young = this.#young.filter((one) => one.isOpen);
  }

  /** Notes that the result of the attempt is recorded. */
  remove(deliveryId: string): void {
    const tracked = this.#all.get(deliveryId);
    if (!tracked) return;
    this.complete(tracked);
    this.#all.delete(deliveryId);
    const { due, queueKey } = tracked;
    this.#bytes[healthClassOf(tracked)] -= due.bytes;
    this.#bytes.all -= due.bytes;
    const queue = this.#queues.get(queueKey);
    queue?.delete(due.id);
    if (queue?.size === 0) this.#queues.delete(queueKey);
    const left = this.ofShard(due.shard) - 1;
    if (left <= 0) this.#shards.delete(due.shard);
    else this.#shards.set(due.shard, left);
  }

  /** Marks attempts that have become slow. */
  markSlow(nowMs: number): void {
    let skipped = 0;
    for (const tracked of this.#young) {
      if (tracked.isOpen && nowMs - tracked.startedMs < SLOW_MS) break;
      skipped += 1;
      if (!tracked.isOpen) continue;
      this.#attempts[tracked.healthClass] -= 1;
      this.#bytes[tracked.healthClass] -= tracked.due.bytes;
      tracked.isSlow = true;
      this.#attempts.slow += 1;
      this.#bytes.slow += tracked.due.bytes;
      this.#countOf(tracked.endpointKey).slow += 1;
    }
    if (skipped > 0) this.#young = this.#young.slice(skipped);
  }

  #countOf(endpointKey: string): Count {
    const existing = this.#endpoints.get(endpointKey);
    if (existing) return existing;
    const created = { open: 0, slow: 0 };
    this.#endpoints.set(endpointKey, created);
    return created;
  }

  /** Returns the number of all attempts, open or not. */
  size(): number {
    return this.#all.size;
  }

  /**
   * Returns the number and bytes of attempts. The numbers by health class count only open attempts; `all` counts every
   * attempt.
   */
  load(): { readonly attempts: Usage; readonly bytes: Usage } {
    return { attempts: { ...this.#attempts, all: this.#all.size }, bytes: this.#bytes };
  }

  ofEndpoint(key: string): { readonly open: number; readonly slow: number } {
    return this.#endpoints.get(key) ?? NONE;
  }

  ofQueue(key: string): ReadonlySet<string> {
    return this.#queues.get(key) ?? EMPTY;
  }

  ofShard(shard: number): number {
    return this.#shards.get(shard) ?? 0;
  }

  get(deliveryId: string): TrackedAttempt | undefined {
    return this.#all.get(deliveryId);
  }
}

function healthClassOf(tracked: TrackedAttempt): HealthClass {
  return tracked.isSlow ? 'slow' : tracked.healthClass;
}
