import { addedJitter, type Random } from '../../../platform/backoff.ts';

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
