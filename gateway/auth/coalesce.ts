import { setImmediate as nextTurn } from 'node:timers/promises';
import { deadline } from '../../services/platform/process/deadlines.ts';

interface Waiter<R> {
  resolve(result: R): void;
  reject(error: unknown): void;
}

/**
 * The error of a call that waited too long for its result. It counts as an outage of the database, because the gateway
 * coalesces only database statements.
 */
export class CoalescedWaitTimeout extends Error {
  override readonly name = 'CoalescedWaitTimeout';
  readonly code = 'ETIMEDOUT';
}

/** Maximum wait of one call. Milliseconds. */
const TIMEOUT_MS = deadline(7_000);

/**
 * Coalesces concurrent calls with the same key into one call of `run`.
 *
 * Calls in the same turn of the event loop share one call of `run`. Calls that arrive while `run` is running share the
 * next `run`. So every result was read after its call, and nothing is cached. Each key has at most one running `run`,
 * so that the cost of a busy caller does not grow with its number of concurrent calls.
 *
 * A call waits at most 7 s, including the wait for a running `run`. Then it is rejected with
 * {@link CoalescedWaitTimeout}, and a `run` that has not begun does not count it.
 *
 * @param run returns one result for each of `count` calls.
 */
export function createCoalescer<R>(
  run: (key: string, count: number) => Promise<readonly R[]>,
  { timeoutMs = TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): (key: string) => Promise<R> {
  /** The calls that wait for the next `run`, by key. The map has a key as long as a `run` for it is running. */
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
