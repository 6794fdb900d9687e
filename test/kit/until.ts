import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

/** One check counts as at most this long, because a frozen machine has not been waiting. Milliseconds. */
const LOOK_MS = 200;

/** Times that a replica may have counted alone before a limit counts as broken. */
const MOST_TRIES = 3;

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

type Maybe<T> = T | false | undefined;

/**
 * Waits for a fact and returns its value. Throws when it does not become true in time.
 *
 * @param patienceMs time in which this process ran; other tests measure speed.
 * @param everyMs pause between two checks.
 */
export async function until<T>(
  fact: () => Maybe<T> | Promise<Maybe<T>>,
  patienceMs = PATIENCE_MS,
  everyMs = 10,
): Promise<T> {
  let waitedMs = 0;
  for (let last = performance.now(); ; ) {
    const value = await fact();
    if (value !== false && value !== undefined) return value;
    const now = performance.now();
    waitedMs += Math.min(now - last, LOOK_MS);
    last = now;
    if (waitedMs > patienceMs) throw new Error(`not so after ${patienceMs} ms: ${fact}`);
    await sleep(everyMs);
  }
}
