import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

/** One look counts as so much at most: a machine that stood still has not been waiting. Milliseconds. */
const LOOK_MS = 200;

/** Times that a replica may have counted alone before a limit counts as broken. */
const MOST_TRIES = 3;

/**
 * A limit holds over replicas while they share their count; one that the database kept waiting counts
 * alone, as it should. Tries again until the answer is 429, a few times; answers the last.
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
 * Waits for a fact; its value when it is there. Throws when it does not come true in time.
 *
 * @param patienceMs as long as this process ran; speed is measured elsewhere.
 * @param everyMs the rest between two looks.
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
