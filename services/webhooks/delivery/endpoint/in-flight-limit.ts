import type { AttemptOutcome } from '../../sender/outcome.ts';

/**
 * The first value and the maximum of an endpoint's limit of open requests. The limit has its first value again
 * after the circuit closes (`circuit-breaker.ts`), and after the subscription is activated (`queue-changes.ts`).
 */
export const START_IN_FLIGHT = 2;
export const MAX_IN_FLIGHT = 8;

/** Returns the limit after a success: one more, up to the maximum. */
export function raisedLimit(maxInFlight: number): number {
  return Math.min(maxInFlight + 1, MAX_IN_FLIGHT);
}

/** Returns the limit after a failure. A timeout, a 429 or a 5xx halves it. Other failures do not change it. */
export function limitAfterFailure(
  maxInFlight: number,
  { result, status }: Pick<AttemptOutcome, 'result' | 'status'>,
): number {
  const isOverload = result === 'timeout' || result === 'throttled' || status >= 500;
  return isOverload ? Math.max(Math.floor(maxInFlight / 2), 1) : maxInFlight;
}
