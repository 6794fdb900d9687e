const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Pause after the first, second … failed attempt. Milliseconds. */
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

/** The first attempt and one after each pause. */
export const MAX_ATTEMPTS = PAUSES_MS.length + 1;

/** Up to this share of a pause is added at random, so that a recovering endpoint is not stormed. */
const JITTER = 0.2;

/** Longest wait a receiver may ask for. Milliseconds. */
const MAX_RETRY_AFTER_MS = 24 * HOUR_MS;

/**
 * How long to wait after a failed attempt, never less than the schedule says.
 *
 * @param failed attempts made so far in this round, at least 1.
 * @param retryAfterMs what the receiver picked for, see `parseRetryAfter`.
 * @param random 0 to 1.
 * @returns milliseconds, or undefined when the attempts are exhausted.
 */
export function pauseAfter(
  failed: number,
  retryAfterMs: number | undefined,
  random: () => number = Math.random,
): number | undefined {
  const pause = PAUSES_MS[failed - 1];
  if (pause === undefined) return undefined;
  const scheduled = pause + Math.floor(pause * JITTER * random());
  return Math.max(scheduled, Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS));
}

const MIN_PUT_OFF_MS = MINUTE_MS;
const MAX_PUT_OFF_MS = 10 * MINUTE_MS;

/**
 * How long a delivery waits whose attempt could not be made, by no fault of its receiver: as long as it
 * has waited, so twice as long each time. Milliseconds.
 */
export function putOffPause(waitedMs: number): number {
  return Math.min(Math.max(waitedMs, MIN_PUT_OFF_MS), MAX_PUT_OFF_MS);
}
