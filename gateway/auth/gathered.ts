import { setImmediate as nextTurn } from 'node:timers/promises';

interface Asker<R> {
  resolve(answer: R): void;
  reject(error: unknown): void;
}

/**
 * Somebody has waited for an answer for as long as one statement of the gateway may take. It counts as
 * an outage of the database, which is what takes so long.
 */
export class AskedTooLong extends Error {
  override readonly name = 'AskedTooLong';
  readonly code = 'ETIMEDOUT';
}

/** As long as the gateway's client waits for one statement. Milliseconds. */
const PATIENCE_MS = 7_000;

/**
 * Puts a question once for all who ask it at the same time: those of one turn of the event loop
 * together, and whoever asks while an answer is on its way, with the next one. So each answer is
 * fetched after it was asked for, nothing is remembered, and of each key one question is open at most:
 * what a busy caller costs does not grow with how many calls it makes at once.
 *
 * Nobody waits longer than 7 s, behind an open question and for the own one together: then the asker is
 * told of {@link AskedTooLong}, and not asked for any more.
 *
 * @param ask answers for so many askers of a key, one each.
 */
export function createGathering<R>(
  ask: (key: string, count: number) => Promise<readonly R[]>,
  { patienceMs = PATIENCE_MS }: { readonly patienceMs?: number } = {},
): (key: string) => Promise<R> {
  /** Who waits behind the question of a key that is open. */
  const behind = new Map<string, Set<Asker<R>>>();

  const serve = async (key: string): Promise<void> => {
    await nextTurn();
    for (let askers = behind.get(key); askers && askers.size > 0; askers = behind.get(key)) {
      behind.set(key, new Set());
      await answer(key, [...askers]);
    }
    behind.delete(key);
  };
  const answer = async (key: string, askers: readonly Asker<R>[]): Promise<void> => {
    try {
      const answers = await ask(key, askers.length);
      for (const [at, own] of answers.entries()) askers[at]?.resolve(own);
    } catch (error) {
      for (const asker of askers) asker.reject(error);
    }
  };
  const queue = (key: string, asker: Asker<R>): void => {
    const waiting = behind.get(key);
    if (waiting) return void waiting.add(asker);
    behind.set(key, new Set([asker]));
    void serve(key);
  };

  return async (key) => {
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const asker = { resolve, reject };
    queue(key, asker);
    const limit = setTimeout(() => {
      behind.get(key)?.delete(asker);
      reject(new AskedTooLong('no answer in time'));
    }, patienceMs);
    try {
      return await promise;
    } finally {
      clearTimeout(limit);
    }
  };
}
