import { addedJitter, type Random } from '../../../platform/process/backoff.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Pauses after the first failed attempt, the second, and so on. Milliseconds. */
const PAUSES_MS: readonly number[] = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

/** Maximum pause that a receiver may request. Milliseconds. */
const MAX_RETRY_AFTER_MS = 24 * HOUR_MS;

/**
 * Returns the pause after a failed attempt. It is that of the schedule, or a longer one that the receiver requested.
 *
 * @param failed number of attempts since the delivery was last queued, at least 1.
 * @param retryAfterMs pause that the receiver requested, see `parseRetryAfter`.
 * @param random 0 to 1.
 * @returns milliseconds; undefined when no attempt is left.
 */
export function pauseAfter(
  failed: number,
  retryAfterMs: number | undefined,
  random?: Random,
): number | undefined {
  const pause = PAUSES_MS[failed - 1];
  if (pause === undefined) return undefined;
  const scheduled = addedJitter(pause, random);
  return Math.max(scheduled, Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS));
}

const MIN_RESCHEDULE_MS = MINUTE_MS;
const MAX_RESCHEDULE_MS = 10 * MINUTE_MS;

/**
 * Returns the pause of a delivery whose attempt this process could not make. It is as long as the delivery has already
 * waited since it was queued, so that the total wait doubles; at least one minute, at most ten. Milliseconds.
 */
export function reschedulePause(waitedMs: number): number {
  return Math.min(Math.max(waitedMs, MIN_RESCHEDULE_MS), MAX_RESCHEDULE_MS);
}

const MIN_NO_SOCKET_MS = SECOND_MS;
const MAX_NO_SOCKET_MS = MINUTE_MS;

/**
 * Returns the pause of a delivery for which this process had no socket. It is as long as the delivery has already
 * waited since it was queued, at least a second, at most a minute; plus a random part. Milliseconds.
 */
export function noSocketPause(waitedMs: number): number {
  return addedJitter(Math.min(Math.max(waitedMs, MIN_NO_SOCKET_MS), MAX_NO_SOCKET_MS));
}

/** Maximum number of retries per second in this process, for endpoints that have just begun to fail. */
export const RETRIES_PER_SECOND = 50;

/** Pauses above this are not changed, because their jitter is large enough. Milliseconds. */
const MAX_PAUSE_MS = 400_000;
/**
 * Maximum time by which a retry is delayed. When all seconds until then are full, the retry gets a random one of them.
 * Milliseconds.
 */
const MAX_DELAY_MS = 300_000;

interface RetrySlots {
  /** Returns this pause, or a longer one that ends in the next second with a free slot. Milliseconds. */
  take(pauseMs: number): number;
}

/**
 * Spreads the retries of endpoints that begin to fail at the same time. Their jitter is only a few seconds, and
 * thousands of concurrent retries would delay all other deliveries.
 *
 * @param now a monotonic clock. Milliseconds.
 */
export function createRetrySlots(now: () => number = () => performance.now()): RetrySlots {
  const taken = new Map<number, number>();
  let deletedBefore = Number.NEGATIVE_INFINITY;

  function dropPast(second: number): void {
    if (second <= deletedBefore) return;
    deletedBefore = second;
    for (const key of taken.keys()) if (key < second) taken.delete(key);
  }

  return {
    take(pauseMs) {
      if (pauseMs > MAX_PAUSE_MS) return pauseMs;
      const nowMs = now();
      dropPast(Math.floor(nowMs / SECOND_MS));
      const dueMs = nowMs + pauseMs;
      const first = Math.floor(dueMs / SECOND_MS);
      const last = first + MAX_DELAY_MS / SECOND_MS;
      for (let second = first; second <= last; second += 1) {
        const count = taken.get(second) ?? 0;
        if (count >= RETRIES_PER_SECOND) continue;
        taken.set(second, count + 1);
        return second === first ? pauseMs : (second + Math.random()) * SECOND_MS - nowMs;
      }
      return pauseMs + MAX_DELAY_MS * Math.random();
    },
  };
}

/**
 * The clock for retries, held deliveries and days of failures. It is the clock of the database plus an offset, which
 * only tests and the local stack change. Leases and `webhook-timestamp` use the real time.
 */
export interface RetryClock {
  /** How far the retry clock is ahead of the real time. Milliseconds. */
  offsetMs(): number;
  /** Moves the retry clock forward. @throws RangeError when `seconds` is negative or not finite. */
  advance(seconds: number): void;
}

export function createRetryClock(): RetryClock {
  let offset = 0;
  return {
    offsetMs: () => offset,
    advance(seconds) {
      if (!Number.isFinite(seconds) || seconds < 0) {
        throw new RangeError('the retry clock only moves forward');
      }
      offset += Math.round(seconds * 1_000);
    },
  };
}
