import { type Condition, until, type Wait } from '../kit/until.ts';

/**
 * Waits for a condition while things fail on purpose, and returns its value. It counts real time, because rows assert how
 * fast the system recovers.
 *
 * @throws OverdueError when the condition does not become true in time. StopWaitingError when `condition` throws it.
 *   Other errors mean "not yet".
 */
export function waitFor<T>(
  condition: Condition<T>,
  wait: Wait & { readonly what: string },
): Promise<T> {
  return until(condition, { everyMs: 20, ...wait, byTheClock: true, despiteErrors: true });
}

/** Milliseconds since the epoch with fractions. Comparable between the processes of one machine. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
