import { setImmediate as nextTurn } from 'node:timers/promises';

interface Waiter<R> {
  resolve(answer: R): void;
  reject(error: unknown): void;
}

/**
 * A caller waited for as long as one statement of the gateway may take. It counts as a database outage, because the
 * calls that are coalesced are database statements.
 */
export class CoalescedWaitTimeout extends Error {
  override readonly name = 'CoalescedWaitTimeout';
  readonly code = 'ETIMEDOUT';
}

/** The time limit of one database statement of the gateway. Milliseconds. */
const TIMEOUT_MS = 7_000;

/**
 * Coalesces concurrent calls with the same key into one call of `ask`.
 *
 * Calls in the same turn of the event loop share one call of `ask`; calls that arrive while it is running share the
 * next one. So every result was fetched after its call began, nothing is cached, and each key has at most one open
 * `ask`: the cost of a busy caller does not grow with its number of concurrent calls.
 *
 * A call waits at most 7 s in total, including the wait for an open `ask`. Then it is rejected with
 * {@link CoalescedWaitTimeout} and, if its `ask` has not begun, left out of it.
 *
 * @param ask returns one result for each of `count` calls.
 */
export function createCoalescer<R>(
  ask: (key: string, count: number) => Promise<readonly R[]>,
  { timeoutMs = TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): (key: string) => Promise<R> {
  /** The calls that wait for the next `ask`, by key. A key is present while its `ask` is open. */
  const waiting = new Map<string, Set<Waiter<R>>>();

  const serve = async (key: string): Promise<void> => {
    await nextTurn();
    for (let batch = waiting.get(key); batch && batch.size > 0; batch = waiting.get(key)) {
      waiting.set(key, new Set());
      await answer(key, [...batch]);
    }
    waiting.delete(key);
  };
  const answer = async (key: string, waiters: readonly Waiter<R>[]): Promise<void> => {
    try {
      const results = await ask(key, waiters.length);
      for (const [at, result] of results.entries()) waiters[at]?.resolve(result);
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
  };
  const queue = (key: string, waiter: Waiter<R>): void => {
    const next = waiting.get(key);
    if (next) return void next.add(waiter);
    waiting.set(key, new Set([waiter]));
    void serve(key);
  };

  return async (key) => {
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const waiter = { resolve, reject };
    queue(key, waiter);
    const limit = setTimeout(() => {
      waiting.get(key)?.delete(waiter);
      reject(new CoalescedWaitTimeout('no answer in time'));
    }, timeoutMs);
    try {
      return await promise;
    } finally {
      clearTimeout(limit);
    }
  };
}
