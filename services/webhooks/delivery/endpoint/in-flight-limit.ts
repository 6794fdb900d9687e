import type { AttemptOutcome } from '../../sender/outcome.ts';

/** Limit of the attempts in flight of one endpoint: where it begins, and its maximum. */
export const START_IN_FLIGHT = 2;
export const MAX_IN_FLIGHT = 8;

/** The limit after a success: one more. */
export function raisedLimit(maxInFlight: number): number {
  return Math.min(maxInFlight + 1, MAX_IN_FLIGHT);
}

/** The limit after a failure: half for a timeout, 429 or 5xx, otherwise the same. */
export function limitAfterFailure(
  maxInFlight: number,
  { result, status }: Pick<AttemptOutcome, 'result' | 'status'>,
): number {
  const isOverload = result === 'timeout' || result === 'throttled' || status >= 500;
  return isOverload ? Math.max(Math.floor(maxInFlight / 2), 1) : maxInFlight;
}
