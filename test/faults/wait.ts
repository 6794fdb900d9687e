import { type Condition, until, type Wait } from '../kit/until.ts';

/**
 * Waits for a condition of a system in which things fail on purpose, and returns its value. All time counts, because rows
 * promise how fast it recovers.
 *
 * @throws OverdueError when it does not become true in time; StopWaitingError when `condition` throws that. Other errors count
 *   as "not yet".
 */
export function waitFor<T>(
  condition: Condition<T>,
  wait: Wait & { readonly what: string },
): Promise<T> {
  return until(condition, { everyMs: 20, ...wait, byTheClock: true, despiteErrors: true });
}

/** Milliseconds since the epoch with fractions, comparable between the processes of one machine. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
