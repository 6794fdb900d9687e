import type { SendResult } from '../../sender/send-result.ts';

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
  { kind, status }: Pick<SendResult, 'kind' | 'status'>,
): number {
  const isOverload = kind === 'timeout' || kind === 'throttled' || status >= 500;
  return isOverload ? Math.max(Math.floor(maxInFlight / 2), 1) : maxInFlight;
}
