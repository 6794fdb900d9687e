import { Code } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { until } from '../../test/kit/until.ts';
import { forCaller } from './caller.ts';
import { serveCallers, waitingFor } from './caller-pool.ts';
import { createPool, inTransaction } from './postgres.ts';

const FOR_EVER = 'select pg_sleep(600)';

let database: TestDatabase;
let background: pg.Pool;
let pool: pg.Pool;
beforeEach(async () => {
  database = await createTestDatabase('returns');
  background = createPool(database.url, { max: 1 });
});
afterEach(async () => {
  await Promise.all([pool.end(), background.end()]);
  await database.drop();
});

async function sleeping(): Promise<number> {
  const { rows } = await background.query<{ count: bigint }>(
    `select count(*) from pg_stat_activity
      where datname = current_database() and state = 'active' and query = $1`,
    [FOR_EVER],
  );
  return Number(rows[0]?.count ?? 0);
}

function open(max: number): void {
  pool = serveCallers(createPool(database.url, { max }), background);
}

describe('a pool that serves callers', () => {
  test('cancels the statement of a caller that disconnects, inside and outside of a transaction', async () => {
    open(1);
    const leaving = new AbortController();
    const alone = forCaller(leaving.signal, () => pool.query(FOR_EVER));
    alone.catch(() => {});
    await until(async () => (await sleeping()) === 1);
    leaving.abort();
    await expect(alone).rejects.toMatchObject({ code: '57014' });

    const leavingToo = new AbortController();
    const together = forCaller(leavingToo.signal, () =>
      inTransaction(pool, async (tx) => {
        await tx.query('select 1');
        leavingToo.abort();
        await tx.query(FOR_EVER);
      }),
    );
    await expect(together).rejects.toMatchObject({ code: '57014' });
    // The only connection is free and usable.
    await pool.query('select 1');
    expect(pool.totalCount).toBe(1);
  });

  test('a caller that disconnects stops waiting for a connection and gets none', async () => {
    open(1);
    const held = await pool.connect();
    const leaving = new AbortController();
    const waiting = forCaller(leaving.signal, () => pool.query('select 1'));
    waiting.catch(() => {});
    await until(() => waitingFor(pool) === 1);
    leaving.abort();
    await expect(waiting).rejects.toMatchObject({ code: Code.Canceled });
    const late = forCaller(leaving.signal, () => inTransaction(pool, async () => {}));
    await expect(late).rejects.toMatchObject({ code: Code.Canceled });
    held.release();
    await pool.query('select 1');
  });

  test("a cancellation never reaches the next user's statement", async () => {
    open(1);
    for (let round = 0; round < 10; round += 1) {
      const leaving = new AbortController();
      const left = forCaller(leaving.signal, () => pool.query('select pg_sleep(30)'));
      left.catch(() => {});
      await until(() => pool.totalCount - pool.idleCount === 1);
      leaving.abort();
      await pool.query('select pg_sleep(0.02)');
      await left.catch(() => {});
    }
  });

  test('only one cancellation is in flight, and its end returns the connection', async () => {
    const held = Promise.withResolvers<void>();
    let sent = 0;
    const query = () => {
      sent += 1;
      return held.promise;
    };
    // All its connections are in use; the code calls only `query`.
    const busy = { query } as unknown as pg.Pool;
    pool = serveCallers(createPool(database.url, { max: 1 }), busy);
    // A connection that is still being opened must not be lent to a caller who left.
    await pool.query('select 1');
    const leaving = new AbortController();
    const left = forCaller(leaving.signal, () => pool.query('select pg_sleep(2)'));
    await until(() => pool.totalCount - pool.idleCount === 1);
    leaving.abort();
    await left;
    held.resolve();
    await pool.query('select 1');
    expect(sent).toBeLessThanOrEqual(1);
  });

  test('transactions that wait for a lock leave connections to reads', async () => {
    open(4);
    const lock = await database.pool.connect();
    await lock.query('begin');
    await lock.query('lock table settings in exclusive mode');
    const leaving = new AbortController();
    const writes = Array.from({ length: 20 }, () =>
      forCaller(leaving.signal, () =>
        inTransaction(pool, (tx) => tx.query('lock table settings in exclusive mode')),
      ).catch(() => 'left'),
    );
    await until(() => waitingFor(pool) === 17);
    await pool.query('select 1');
    leaving.abort();
    expect(new Set(await Promise.all(writes))).toEqual(new Set(['left']));
    await lock.query('rollback');
    lock.release();
    await inTransaction(pool, (tx) => tx.query('lock table settings in exclusive mode'));
  });
});
