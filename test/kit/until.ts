import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';

const PATIENCE_MS = 20_000;

/** One check counts as at most this long, because a frozen machine has not been waiting. Milliseconds. */
const LOOK_MS = 200;

/** Times that a replica may have counted alone before a limit counts as broken. */
const MOST_TRIES = 3;

/** A fact did not become true in time. Its cause is the last error of the fact, if that failed. */
export class OverdueError extends Error {
  override readonly name = 'OverdueError';
}

/** Waiting longer makes no sense, because the fact cannot become true any more. */
export class HopelessError extends Error {
  override readonly name = 'HopelessError';
}

type Maybe<T> = T | false | undefined;

/** Notes what a fact looks at, for the message, and returns it. */
export type See = <V>(value: V) => V;

/** `until((see) => see(list.length) === 3)` fails with the last length. */
export type Fact<T> = (see: See) => Maybe<T> | Promise<Maybe<T>>;

export interface Wait {
  /** What is waited for, for the message; the text of the fact by default. */
  readonly what?: string;
  /** Milliseconds. */
  readonly withinMs?: number;
  /** Pause between two checks. Milliseconds. */
  readonly everyMs?: number;
  /** Counts all time. By default only time in which this process ran counts, because other tests measure speed. */
  readonly byTheClock?: boolean;
  /** An error of the fact means "not yet", except a HopelessError. By default it ends the wait. */
  readonly despiteErrors?: boolean;
}

/**
 * Waits for a fact and returns its value.
 *
 * @param wait how, or for how many milliseconds.
 * @throws OverdueError with the last value seen when it does not become true in time.
 */
export async function until<T>(fact: Fact<T>, wait: number | Wait = {}, pauseMs = 10): Promise<T> {
  const o: Wait = typeof wait === 'number' ? { withinMs: wait } : wait;
  const { withinMs = PATIENCE_MS, everyMs = pauseMs } = o;
  let seen: unknown;
  let failure: unknown;
  const see: See = (value) => {
    seen = value;
    return value;
  };
  let waitedMs = 0;
  for (let last = performance.now(); ; ) {
    try {
      failure = undefined;
      const value = await fact(see);
      if (value !== false && value !== undefined) return value;
    } catch (error) {
      if (!o.despiteErrors || error instanceof HopelessError) throw error;
      failure = error;
    }
    const now = performance.now();
    waitedMs += o.byTheClock ? now - last : Math.min(now - last, LOOK_MS);
    last = now;
    if (waitedMs >= withinMs) {
      const lastSeen = seen === undefined ? '' : `; last seen: ${inspect(seen, { depth: 3 })}`;
      const message = `not within ${withinMs} ms: ${o.what ?? fact}${lastSeen}`;
      throw new OverdueError(message, failure === undefined ? {} : { cause: failure });
    }
    await sleep(everyMs);
  }
}

/**
 * Replicas share the count of a limit. A replica that waits for the database counts alone, as intended. So this tries a
 * few times until the answer is 429, and returns the last answer.
 */
export async function untilLimited<T extends { readonly status: number }>(
  reachLimit: () => Promise<T>,
): Promise<T> {
  for (let nth = 1; ; nth += 1) {
    const answer = await reachLimit();
    if (answer.status === 429 || nth === MOST_TRIES) return answer;
  }
}
