import { setTimeout as sleep } from 'node:timers/promises';

/** Returns a number from 0 to below 1. Tests inject their own. */
export type Random = () => number;

/**
 * Makes a pause random, so that processes that failed together do not try again at the same moment. Takes and returns
 * milliseconds.
 */
export type Jitter = (pauseMs: number, random?: Random) => number;

/** Returns the pause unchanged, for waiters whose pauses must end at the same moment. */
export const noJitter: Jitter = (pauseMs) => pauseMs;

/** Returns a time between half of the pause and the whole pause. */
export const equalJitter: Jitter = (pauseMs, random = Math.random) =>
  pauseMs / 2 + (pauseMs / 2) * random();

const ADDED = 0.2;

/** Adds up to a fifth to the pause. For pauses that must never be shortened. */
export const addedJitter: Jitter = (pauseMs, random = Math.random) =>
  pauseMs + Math.floor(pauseMs * ADDED * random());

/** The pause after the first, second … failure in a row. Milliseconds. */
export type Backoff = (failures: number) => number;

/** Creates a backoff. Before the jitter, the pause doubles with each failure, up to `longestMs`. */
export function createBackoff(o: {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly jitter: Jitter;
  readonly random?: Random;
}): Backoff {
  return (failures) => o.jitter(Math.min(o.firstMs * 2 ** (failures - 1), o.longestMs), o.random);
}

export interface RetryOptions {
  readonly backoff: Backoff;
  /** Whether the work may succeed at the next try. Called after each failure. */
  readonly isTransient: (error: unknown, failures: number) => boolean;
  /** Ends the pause and the retries. */
  readonly signal?: AbortSignal;
}

/** Repeats the work until it succeeds. @throws the first error that is not transient; after an abort the last error. */
export async function retry<T>(work: () => Promise<T>, o: RetryOptions): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      if (o.signal?.aborted || !o.isTransient(error, failures)) throw error;
    }
    await sleep(o.backoff(failures), undefined, { signal: o.signal }).catch(() => {});
  }
}
