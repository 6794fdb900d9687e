import { setImmediate as nextTurn } from 'node:timers/promises';

interface Asker<R> {
  resolve(answer: R): void;
  reject(error: unknown): void;
}

/**
 * Puts a question once for all who ask it at the same time: those of one turn of the event loop
 * together, and whoever asks while an answer is on its way, with the next one. So each answer is
 * fetched after it was asked for, nothing is remembered, and of each key one question is open at most:
 * what a busy caller costs does not grow with how many calls it makes at once.
 *
 * @param ask answers for so many askers of a key, one each.
 */
export function createGathering<R>(
  ask: (key: string, count: number) => Promise<readonly R[]>,
): (key: string) => Promise<R> {
  /** Who waits behind the question of a key that is open. */
  const behind = new Map<string, Asker<R>[]>();

  const serve = async (key: string): Promise<void> => {
    await nextTurn();
    for (let askers = behind.get(key) ?? []; askers.length > 0; askers = behind.get(key) ?? []) {
      behind.set(key, []);
      await answer(key, askers);
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

  return (key) =>
    new Promise((resolve, reject) => {
      const waiting = behind.get(key);
      if (waiting) return void waiting.push({ resolve, reject });
      behind.set(key, [{ resolve, reject }]);
      void serve(key);
    });
}
