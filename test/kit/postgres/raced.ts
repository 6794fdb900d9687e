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
export async function inTurn(calls: readonly Call[]): Promise<unknown[]> {
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
