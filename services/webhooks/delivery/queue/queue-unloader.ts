import type pg from 'pg';
import type { RetryClock } from '../attempt/retry-clock.ts';
import { type ActiveQueue, isDue, markDue, unloadingOf } from '../scheduler/active-queue.ts';
import { type ActiveQueues, MAX_ACTIVE_QUEUES } from '../scheduler/active-queues.ts';
import type { InFlightAttempts } from '../scheduler/in-flight.ts';
import { rescheduleQueues, unloadQueues } from './ready-queues.ts';

export interface QueueUnloaderOptions {
  readonly pool: pg.Pool;
  readonly clock: RetryClock;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  /** The current time of the retry clock, as the database computes it. */
  readonly retryNowMs: () => number;
  /** Called with the time at which an unloaded queue becomes ready, by the retry clock. */
  readonly onReadyAt: (retryMs: number) => void;
  /** Called when a queue that was unloaded may already be ready. */
  readonly onMaybeReady: () => void;
}

/** How long a queue without due work stays loaded. It is longer than the gaps of a busy queue. Milliseconds. */
const IDLE_MS = 2_500;
const IDLE_PAUSED_MS = 100;
const IDLE_CROWDED_MS = 10;
const MAX_UNLOADED_PER_STEP = 500;
/** How long a queue without attempts stays loaded when memory is full. Milliseconds. */
const STAY_MS = 1_000;
const MAX_RESCHEDULED_PER_STEP = 250;

/**
 * Unloads queues, so that others can be loaded. An unload also stores when the next retry of the queue is due, because
 * the loader could not find the retry otherwise.
 */
export class QueueUnloader {
  readonly #o: QueueUnloaderOptions;

  constructor(o: QueueUnloaderOptions) {
    this.#o = o;
  }

  /** Unloads queues that had no due work for some time. */
  async unloadIdle(): Promise<void> {
    const { active, pool } = this.#o;
    const now = performance.now();
    const idle = firstOf(active, MAX_UNLOADED_PER_STEP, (queue) => this.#isIdle(queue, now));
    if (idle.length === 0) return;
    const nowMs = this.#o.retryNowMs();
    const unloadings = idle.map((queue) =>
      unloadingOf(queue, active.endpoints.health(queue.endpointKey), nowMs),
    );
    const ready = await unloadQueues(pool, unloadings);
    for (const queue of idle) this.#afterUnload(queue, ready.get(queue.key));
  }

  /**
   * When memory is full, unloads queues that could not send. Thousands of queues of hanging endpoints must not use the
   * memory for queues whose endpoints respond. Such a queue is loaded again after the other ready queues.
   */
  async unloadWaiting(): Promise<void> {
    const { active, inFlight, pool, clock } = this.#o;
    if (active.queues.size < MAX_ACTIVE_QUEUES) return;
    const before = performance.now() - STAY_MS;
    const late = firstOf(
      active,
      MAX_RESCHEDULED_PER_STEP,
      (queue) => queue.loadedAtMs <= before && inFlight.ofQueue(queue.key).size === 0,
    );
    if (late.length === 0) return;
    await rescheduleQueues(pool, late, { offsetMs: clock.offsetMs() });
    for (const queue of late) active.remove(queue.key);
    this.#o.onMaybeReady();
  }

  /** Unloads queues that have due work and must wait for `pauseMs`. */
  async postpone(queues: readonly ActiveQueue[], pauseMs: number): Promise<void> {
    const { active, inFlight, pool, clock } = this.#o;
    for (const queue of queues) {
      active.takeFresh(queue, Number.POSITIVE_INFINITY);
      queue.hasDueWork = false;
      queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
    }
    // Queues with attempts in flight stay loaded. They are checked again after their next idle period.
    const free = queues.filter((queue) => inFlight.ofQueue(queue.key).size === 0);
    if (free.length === 0) return;
    await rescheduleQueues(pool, free, { offsetMs: clock.offsetMs(), pauseMs });
    // Queues that were notified in the meantime stay loaded, and are checked again.
    for (const queue of free) if (!isDue(queue)) active.remove(queue.key);
    this.#o.onReadyAt(this.#o.retryNowMs() + pauseMs);
  }

  #isIdle(queue: ActiveQueue, now: number): boolean {
    const { active, inFlight } = this.#o;
    if (isDue(queue) || inFlight.ofQueue(queue.key).size > 0) return false;
    // When the health of an endpoint is not known, it has no open circuit.
    const isPaused = active.endpoints.health(queue.endpointKey)?.circuit != null;
    const isCrowded = active.queues.size > MAX_ACTIVE_QUEUES / 2;
    const idleMs = isCrowded ? IDLE_CROWDED_MS : isPaused ? IDLE_PAUSED_MS : IDLE_MS;
    return now - queue.idleSinceMs >= idleMs;
  }

  /**
   * Removes a queue from memory after it was stored, unless it is due.
   *
   * @param readyMs when the queue becomes ready, by the retry clock; null for never, undefined when the stored queue
   *   was changed.
   */
  #afterUnload(queue: ActiveQueue, readyMs: number | null | undefined): void {
    const { active, onMaybeReady, onReadyAt, retryNowMs } = this.#o;
    // The queue was notified in the meantime. So it stays loaded.
    if (isDue(queue) && readyMs !== undefined) return;
    if (readyMs === null) active.remove(queue.key);
    else if (readyMs === undefined) {
      active.remove(queue.key);
      onMaybeReady();
    } else if (readyMs > retryNowMs()) {
      active.remove(queue.key);
      onReadyAt(readyMs);
    } else {
      queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
      queue.idleSinceMs = performance.now();
      markDue(queue);
    }
  }
}

/** Returns the first `limit` queues that match. */
function firstOf(
  { queues }: ActiveQueues,
  limit: number,
  matches: (queue: ActiveQueue) => boolean,
): ActiveQueue[] {
  const first: ActiveQueue[] = [];
  for (const queue of queues.values()) {
    if (matches(queue)) first.push(queue);
    if (first.length === limit) break;
  }
  return first;
}
