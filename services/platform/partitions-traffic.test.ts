import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/support/database.ts';
import { type PartitionedTable, tendPartitions } from './partitions.ts';
import { inTransaction } from './postgres.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('returns');
  const migrator = new pg.Client({ connectionString: db.migratorUrl });
  await migrator.connect();
  await migrator.query('set search_path to returns');
  for (const table of ['events', 'consumed_events']) {
    await migrator.query(
      `create table ${table}_20200101 partition of ${table} for values from ('2020-01-01') to ('2020-01-02')`,
    );
  }
  await migrator.end();
});
afterAll(() => db.drop());

const TABLES: [PartitionedTable, string][] = [
  ['event', 'events'],
  ['consumed', 'consumed_events'],
];

/** A second is what PostgreSQL waits before it looks for a deadlock; a loaded machine needs some of it. */
const LONG_MS = 900;

/** The longest that anybody had to wait for the table until told to stop. */
function watch(table: string) {
  let isOver = false;
  let longestMs = 0;
  const watching = (async () => {
    while (!isOver) {
      const before = performance.now();
      await db.pool.query(`select from ${table} where day = current_date limit 1`);
      longestMs = Math.max(longestMs, performance.now() - before);
      await sleep(5);
    }
  })();
  return async () => {
    isOver = true;
    await watching;
    return longestMs;
  };
}

describe.each(TABLES)('the days of %s', (table, name) => {
  const tend = () => tendPartitions(db.pool, { table, retentionDays: 7 });

  test('are given up while somebody reads for long, who holds up nobody', async () => {
    const stop = watch(name);
    await inTransaction(db.pool, async (tx) => {
      await tx.query(`select from ${name} limit 1`);
      await expect(tend()).rejects.toMatchObject({ code: '55P03' });
    });
    expect(await stop()).toBeLessThan(LONG_MS);
    expect((await tend()).dropped).toBe(1);
  }, 30_000);
});
