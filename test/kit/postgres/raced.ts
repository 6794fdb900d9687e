import { isDeepStrictEqual } from 'node:util';
import { ConnectError } from '@connectrpc/connect';
import type pg from 'pg';
import { until } from '../until.ts';
import { lockWaits } from './lock-waits.ts';

type Call = () => Promise<unknown>;

/** The response of a call, or its error. */
const resultOf = (call: Call): Promise<unknown> =>
  call().then(
    (value) => value,
    (error: unknown) => `rejected: ${ConnectError.from(error).message}`,
  );

/** Calls one after the other. */
async function inTurn(calls: readonly Call[]): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const call of calls) results.push(await resultOf(call));
  return results;
}

/**
 * Holds the lock of a statement, such as `select … for update`, until each call waits for a lock, or has ended without
 * it. The calls wait in their order. Returns their results.
 */
export async function raced(
  pool: pg.Pool,
  lock: { readonly text: string; readonly values: readonly unknown[] },
  calls: readonly Call[],
): Promise<unknown[]> {
  const holder = await pool.connect();
  try {
    await holder.query('begin');
    await holder.query(lock.text, [...lock.values]);
    const results: Promise<unknown>[] = [];
    let ended = 0;
    for (const call of calls) {
      const result = resultOf(call);
      void result.then(() => {
        ended += 1;
      });
      results.push(result);
      await until(async (see) => see(await lockWaits(pool)) + ended === results.length);
    }
    await holder.query('commit');
    return await Promise.all(results);
  } finally {
    holder.release();
  }
}

/** Each ordered pair of names, also of a name with itself. */
export const pairsOf = (names: readonly string[]): [string, string][] =>
  names.flatMap((first) => names.map((second): [string, string] => [first, second]));

/** Replaces ids in texts, which differ between two runs. */
const withoutNumbers = (result: unknown) =>
  typeof result === 'string' ? result.replaceAll(/\d+/g, 'n') : result;

/** An object of a test, and everything that writes it. */
export interface Writable<T> {
  readonly pool: pg.Pool;
  make(): Promise<T>;
  /** A statement that locks the object. */
  lock(of: T): { readonly text: string; readonly values: readonly unknown[] };
  /** Each write returns only what does not differ between two runs. */
  readonly writes: Readonly<Record<string, (of: T) => Promise<unknown>>>;
  /** What is stored of the object, also without what differs between two runs. */
  stored(of: T): Promise<unknown>;
}

/**
 * Makes two writes of a new object at the same time, and one after the other of two other objects.
 *
 * @returns the outcome of the first, and that of the order which has the same outcome, or of the reverse order.
 */
export async function outcomesOfPair<T>(o: Writable<T>, pair: readonly [string, string]) {
  const outcome = async (
    names: readonly string[],
    run: (calls: readonly Call[], of: T) => Promise<unknown[]>,
  ) => {
    const of = await o.make();
    const calls = names.map((name) => () => o.writes[name]?.(of) ?? Promise.reject(name));
    const results = (await run(calls, of)).map(withoutNumbers);
    return { results, stored: await o.stored(of) };
  };
  const together = await outcome(pair, (calls, of) => raced(o.pool, o.lock(of), calls));
  const inOrder = await outcome(pair, inTurn);
  if (isDeepStrictEqual(together, inOrder)) return { together, serial: inOrder };
  const { results, stored } = await outcome(pair.toReversed(), inTurn);
  return { together, serial: { results: results.toReversed(), stored } };
}
