import type pg from 'pg';
import { inTransaction, type Queryable } from '../../platform/postgres/postgres.ts';
import { LARGE_BYTES, type LargeWork } from './large.ts';

/** The parts of the process that a store of returns needs. */
export interface StoreDeps {
  readonly pool: pg.Pool;
  /** The permits for large returns. */
  readonly large: LargeWork;
}

/** For each transaction of {@link changing}: whether it may read large returns. */
const permitted = new WeakMap<Queryable, boolean>();

/** Thrown so that a transaction is rolled back: the returns are large, and the call has no permit for large returns. */
export class NeedsPermit extends Error {
  override readonly name = 'NeedsPermit';
}

/**
 * Runs `work` in a transaction that changes returns. When the returns are large, it rolls back, waits for a permit and
 * runs `work` again. It rolls back first, because a call that waits for a permit must not have a connection.
 *
 * @param work may run twice. It reads the returns that it changes with `loadForChange`.
 * @throws ConnectError OVERLOADED when no permit came in time.
 */
export async function changing<T>(
  { pool, large }: StoreDeps,
  shopId: bigint,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const attempt = (isPermitted: boolean): Promise<T> =>
    inTransaction(pool, async (tx) => {
      permitted.set(tx, isPermitted);
      try {
        return await work(tx);
      } finally {
        permitted.delete(tx);
      }
    });
  try {
    return await attempt(large.isPermitted());
  } catch (error) {
    if (!(error instanceof NeedsPermit)) throw error;
  }
  return large.within(shopId, () => attempt(true));
}

/** Whether a transaction may read large returns: it has a permit, or {@link changing} did not create it. */
export function mayHoldLarge(tx: Queryable): boolean {
  return permitted.get(tx) !== false;
}

/**
 * Requires a permit for data that `loadForChange` does not read, in a transaction of {@link changing}.
 *
 * @param bytesOf returns the size of the data. It is called only when the transaction has no permit.
 */
export async function requirePermit(tx: Queryable, bytesOf: () => Promise<number>): Promise<void> {
  if (!mayHoldLarge(tx) && (await bytesOf()) > LARGE_BYTES) throw new NeedsPermit();
}
