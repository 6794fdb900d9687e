import { type Fact, until, type Wait } from '../kit/until.ts';

/**
 * Waits for a fact of a system in which things fail on purpose, and returns its value. All time counts, because rows
 * promise how fast it recovers.
 *
 * @throws OverdueError when it does not become true in time; HopelessError when `fact` throws that. Other errors count
 *   as "not yet".
 */
export function waitFor<T>(fact: Fact<T>, wait: Wait & { readonly what: string }): Promise<T> {
  return until(fact, { everyMs: 20, ...wait, byTheClock: true, despiteErrors: true });
}

/** Milliseconds since the epoch with fractions, comparable between the processes of one machine. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
