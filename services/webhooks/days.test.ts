import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { inTransaction } from '../platform/postgres/postgres.ts';
import { maintainDays } from './maintenance.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

const TABLES = ['deliveries', 'payloads', 'attempts'];

/** Transactions that read the tables of the log, in any order, until the test stops them. Returns their errors. */
function startTraffic(clients: number) {
  const failures: unknown[] = [];
  let isOver = false;
  let count = 0;
  const one = async (nth: number): Promise<void> => {
    while (!isOver) {
      const at = (nth + count) % TABLES.length;
      const tables = [...TABLES.slice(at), ...TABLES.slice(0, at)];
      await inTransaction(db.pool, async (tx) => {
        for (const table of tables) {
          await tx.query(`select from ${table} where shop_id = 1 limit 1`);
          await sleep(2);
        }
      }).catch((error: unknown) => failures.push(error));
      count += 1;
    }
  };
  const all = Array.from({ length: clients }, (_, nth) => one(nth));
  return {
    async stop() {
      isOver = true;
      await Promise.all(all);
      return { count, failures };
    },
  };
}

const LOCK_NOT_AVAILABLE = '55P03';
const PATIENCE_MS = 20_000;

/** Retries until the tables are free for a moment. Rejects when they never are. */
async function whenFree<T>(work: () => Promise<T>): Promise<T> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isBusy = error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;
      if (!isBusy || performance.now() > end) throw error;
    }
  }
}

describe('the days of the log', () => {
  test('are created and dropped under traffic without a failed statement', async () => {
    const traffic = startTraffic(2);
    await whenFree(() => db.pool.query('select create_delivery_days(9, 3)'));
    const { dropped } = await whenFree(() => maintainDays(db.pool, { log: 3, events: 2 }));
    expect(dropped).toBeGreaterThan(0);
    const { count, failures } = await traffic.stop();
    expect(failures).toEqual([]);
    expect(count).toBeGreaterThan(0);
  });
});
