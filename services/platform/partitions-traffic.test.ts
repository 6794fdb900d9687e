import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { maintainPartitions, type PartitionedTable } from './partitions.ts';
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

/** Reads the table again and again until the test stops it. Resolves after the last read. */
function keepReading(table: string) {
  let isOver = false;
  const reading = (async () => {
    while (!isOver) await db.pool.query(`select from ${table} where day = current_date limit 1`);
  })();
  return () => {
    isOver = true;
    return reading;
  };
}

describe.each(TABLES)('the days of %s', (table, name) => {
  const maintain = () => maintainPartitions(db.pool, { table, retentionDays: 7 });

  test('are skipped while a long read uses them, and block no other reader', async () => {
    const stop = keepReading(name);
    await inTransaction(db.pool, async (tx) => {
      await tx.query(`select from ${name} limit 1`);
      await expect(maintain()).rejects.toMatchObject({ code: '55P03' });
      // Readers that waited behind the statement have finished while the long reader still reads.
      await stop();
    });
    expect((await maintain()).dropped).toBe(1);
  }, 30_000);
});
