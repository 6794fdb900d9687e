import type pg from 'pg';
import type { RetryClock } from '../attempt/retry-clock.ts';
import {
  type ActiveQueue,
  type ActiveQueues,
  isDue,
  MAX_ACTIVE_QUEUES,
  markDue,
  unloadingOf,
} from '../scheduler/active-queues.ts';
import type { InFlightAttempts } from '../scheduler/in-flight.ts';
import { rescheduleQueues, unloadQueues } from './ready-queues.ts';

export interface QueueUnloaderOptions {
  readonly pool: pg.Pool;
  readonly clock: RetryClock;
  readonly active: ActiveQueues;
  readonly inFlight: InFlightAttempts;
  /** The present time of the retry clock, as in the database. */
  readonly retryNowMs: () => number;
  /** Called with the time at which an unloaded queue is ready, by the retry clock. */
  readonly onReadyAt: (retryMs: number) => void;
  /** Called when unloaded queues may already be ready. */
  readonly onMaybeReady: () => void;
}

/** Unloads queues to make space for others. The loader finds them again when they are ready. */
export interface QueueUnloader {
  /** Unloads queues that have had no due work for a while. */
  unloadIdle(): Promise<void>;
  /** When memory is full: unloads queues that could not send. */
  unloadWaiting(): Promise<void>;
  /** Unloads queues with due work that must wait. Milliseconds. */
  postpone(queues: readonly ActiveQueue[], pauseMs: number): Promise<void>;
}

/** How long a queue without due work stays loaded. Longer than the gaps of a busy queue. */
const IDLE_MS = 2_500;
const IDLE_HELD_MS = 100;
const IDLE_CROWDED_MS = 10;
const MAX_UNLOADED_AT_ONCE = 500;
/** When memory is full: how long a queue that does not send stays, and how many are unloaded at once. */
const STAY_MS = 1_000;
const MAX_RESCHEDULED_AT_ONCE = 250;

export function createQueueUnloader(o: QueueUnloaderOptions): QueueUnloader {
  const { active, inFlight } = o;

  function isIdle(queue: ActiveQueue, now: number): boolean {
    if (isDue(queue) || inFlight.ofQueue(queue.key).size > 0) return false;
    const isHeld = active.health(queue.endpointKey)?.circuit !== null;
    const isCrowded = active.queues.size > MAX_ACTIVE_QUEUES / 2;
    const patience = isCrowded ? IDLE_CROWDED_MS : isHeld ? IDLE_HELD_MS : IDLE_MS;
    return now - queue.idleSinceMs >= patience;
  }

  /** @param readyMs by the retry clock; null for never, undefined when the stored queue has changed. */
  function afterUnload(queue: ActiveQueue, readyMs: number | null | undefined): void {
    // The queue was notified in the meantime.
    if (isDue(queue) && readyMs !== undefined) return;
    if (readyMs === null) active.remove(queue.key);
    else if (readyMs === undefined) {
      active.remove(queue.key);
      o.onMaybeReady();
    } else if (readyMs > o.retryNowMs()) {
      active.remove(queue.key);
      o.onReadyAt(readyMs);
    } else {
      queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
      queue.idleSinceMs = performance.now();
      markDue(queue);
    }
  }

  return {
    async unloadIdle() {
      const now = performance.now();
      const idle: ActiveQueue[] = [];
      for (const queue of active.queues.values()) {
        if (isIdle(queue, now)) idle.push(queue);
        if (idle.length === MAX_UNLOADED_AT_ONCE) break;
      }
      if (idle.length === 0) return;
      const nowMs = o.retryNowMs();
      const unloadings = idle.map((queue) =>
        unloadingOf(queue, active.health(queue.endpointKey), nowMs),
      );
      const ready = await unloadQueues(o.pool, unloadings);
      for (const queue of idle) afterUnload(queue, ready.get(queue.key));
    },
    async postpone(queues, pauseMs) {
      for (const queue of queues) {
        active.takeFresh(queue, Number.POSITIVE_INFINITY);
        queue.hasDueWork = false;
        queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
      }
      // A queue with attempts in flight is checked again after its next idle period.
      const free = queues.filter((queue) => inFlight.ofQueue(queue.key).size === 0);
      if (free.length === 0) return;
      await rescheduleQueues(o.pool, free, { offsetMs: o.clock.offsetMs(), pauseMs });
      // Queues that were notified in the meantime stay and are checked again.
      for (const queue of free) if (!isDue(queue)) active.remove(queue.key);
      o.onReadyAt(o.retryNowMs() + pauseMs);
    },
    // Thousands of queues of hanging endpoints must not use the space of those that answer. A queue that has not sent
    // for a while is unloaded, and is loaded again after the others.
    async unloadWaiting() {
      if (active.queues.size < MAX_ACTIVE_QUEUES) return;
      const before = performance.now() - STAY_MS;
      const late: ActiveQueue[] = [];
      for (const queue of active.queues.values()) {
        if (queue.loadedAtMs > before || inFlight.ofQueue(queue.key).size > 0) continue;
        late.push(queue);
        if (late.length === MAX_RESCHEDULED_AT_ONCE) break;
      }
      if (late.length === 0) return;
      await rescheduleQueues(o.pool, late, { offsetMs: o.clock.offsetMs() });
      for (const queue of late) active.remove(queue.key);
      o.onMaybeReady();
    },
  };
}
