import { setTimeout as sleep } from 'node:timers/promises';

/** A number from 0 to below 1. Tests inject their own. */
export type Random = () => number;

/**
 * Changes a pause at random, so that those who failed together do not try again at the same moment. Takes and returns
 * milliseconds.
 */
export type Jitter = (pauseMs: number, random?: Random) => number;

/** Returns the pause unchanged, for callers that must end it at the same moment. */
export const noJitter: Jitter = (pauseMs) => pauseMs;

/** Returns a time between half of the pause and the whole pause. */
export const equalJitter: Jitter = (pauseMs, random = Math.random) =>
  pauseMs / 2 + (pauseMs / 2) * random();

const ADDED = 0.2;

/** Adds up to a fifth to the pause, for pauses that must never be shortened. */
export const addedJitter: Jitter = (pauseMs, random = Math.random) =>
  pauseMs + Math.floor(pauseMs * ADDED * random());

/** The pause after the first, second … failure in a row. Milliseconds. */
export type Backoff = (failures: number) => number;

/** The pause doubles with each failure up to the longest, before the jitter. */
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
  /** Whether the work may succeed later. Called after each failure. */
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
