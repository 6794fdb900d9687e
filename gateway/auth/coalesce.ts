import { setImmediate as nextTurn } from 'node:timers/promises';

interface Waiter<R> {
  resolve(result: R): void;
  reject(error: unknown): void;
}

/**
 * A caller waited too long for its result. This counts as a database outage, because the gateway coalesces only database
 * statements.
 */
export class CoalescedWaitTimeout extends Error {
  override readonly name = 'CoalescedWaitTimeout';
  readonly code = 'ETIMEDOUT';
}

/** Maximum wait of one call. Milliseconds. */
const TIMEOUT_MS = 7_000;

/**
 * Coalesces concurrent calls with the same key into one call of `run`.
 *
 * Calls in the same turn of the event loop share one call of `run`. Calls that arrive while it is running share the
 * next one. So each result is newer than its call, nothing is cached, and each key has at most one running `run`: the
 * cost of a busy caller does not grow with its number of concurrent calls.
 *
 * A call waits at most 7 s, including the wait for the running `run`. Then it is rejected with
 * {@link CoalescedWaitTimeout}. If the next `run` has not begun, it does not count this call.
 *
 * @param run returns one result for each of `count` calls.
 */
export function createCoalescer<R>(
  run: (key: string, count: number) => Promise<readonly R[]>,
  { timeoutMs = TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): (key: string) => Promise<R> {
  /** The calls that wait for the next `run`, by key. A key is present while its `run` is running. */
  const waiting = new Map<string, Set<Waiter<R>>>();

  const serve = async (key: string): Promise<void> => {
    await nextTurn();
    for (let batch = waiting.get(key); batch && batch.size > 0; batch = waiting.get(key)) {
      waiting.set(key, new Set());
      await runFor(key, [...batch]);
    }
    waiting.delete(key);
  };
  const runFor = async (key: string, waiters: readonly Waiter<R>[]): Promise<void> => {
    try {
      const results = await run(key, waiters.length);
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
    const timer = setTimeout(() => {
      waiting.get(key)?.delete(waiter);
      reject(new CoalescedWaitTimeout('no result in time'));
    }, timeoutMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  };
}
