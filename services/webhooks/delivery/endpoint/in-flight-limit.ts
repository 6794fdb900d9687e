import type { AttemptOutcome } from '../../sender/outcome.ts';

/** First value and maximum of the limit of attempts in flight of one endpoint. */
export const START_IN_FLIGHT = 2;
export const MAX_IN_FLIGHT = 8;

/** Returns the limit after a success: one more. */
export function raisedLimit(maxInFlight: number): number {
  return Math.min(maxInFlight + 1, MAX_IN_FLIGHT);
}

/** Returns the limit after a failure: half for a timeout, 429 or 5xx, otherwise the same. */
export function limitAfterFailure(
  maxInFlight: number,
  { result, status }: Pick<AttemptOutcome, 'result' | 'status'>,
): number {
  const isOverload = result === 'timeout' || result === 'throttled' || status >= 500;
  return isOverload ? Math.max(Math.floor(maxInFlight / 2), 1) : maxInFlight;
}
