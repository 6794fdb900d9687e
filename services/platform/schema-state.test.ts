import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import {
  createEmptyDatabase,
  createTestDatabase,
  type TestDatabase,
} from '../../test/kit/database.ts';
import { migrationsOf } from './migration-files.ts';
import { createPool } from './postgres.ts';
import { RELEASE } from './release.ts';
import { schemaState } from './schema-state.ts';
import { SCHEMAS } from './schemas.ts';

describe('schema state', () => {
  let database: TestDatabase;
  let migrator: pg.Client;
  beforeAll(async () => {
    database = await createTestDatabase('destinations');
    migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
  });
  afterAll(async () => {
    await migrator.end();
    await database.drop();
  });
  const stateAfter = async (sql: string) => {
    await migrator.query('begin');
    await migrator.query('set local search_path to destinations');
    await migrator.query(sql);
    const state = await schemaState(migrator, 'destinations');
    await migrator.query('rollback');
    return state;
  };

  test('current after a migration, as seen by the role of the service', async () => {
    expect(await schemaState(database.pool, 'destinations')).toMatchObject({ state: 'fits' });
  });

  test('older when a file was not applied', async () => {
    const sql = `delete from schema_migrations where name = 'platform/leases/0001_leases.sql'`;
    expect(await stateAfter(sql)).toEqual({
      state: 'older',
      detail: expect.stringContaining(
        'lacks 1 migration(s), first platform/leases/0001_leases.sql',
      ),
    });
  });

  test('newer when this code does not know an applied file', async () => {
    const sql = `insert into schema_migrations (name, sha256) values ('0999_next.sql', 'x')`;
    expect(await stateAfter(sql)).toEqual({
      state: 'newer',
      detail: expect.stringContaining('0999_next.sql'),
    });
  });

  test('fits when the files that this code does not know say so', async () => {
    const sql = `insert into schema_migrations (name, sha256, fits) values ('0999_next.sql', 'x', '${RELEASE}')`;
    expect(await stateAfter(sql)).toEqual({
      state: 'fits',
      detail: expect.stringContaining('newer and fits'),
    });
  });

  test('newer when an applied file has other contents', async () => {
    expect(await stateAfter(`update schema_migrations set sha256 = 'x'`)).toMatchObject({
      state: 'newer',
    });
  });

  test('older when the schema does not exist', async () => {
    const empty = await createEmptyDatabase();
    const pool = createPool(empty.url);
    expect(await schemaState(pool, 'destinations')).toMatchObject({ state: 'older' });
    await pool.end();
    await empty.drop();
  });
});

/** The last file of each folder that was applied before files said what they fit. */
const EARLIER: Readonly<Record<string, number>> = {
  'platform/consumer': 3,
  'platform/idempotency': 1,
  'platform/leases': 1,
  'platform/outbox': 4,
  carts: 3,
  destinations: 1,
  dispositions: 4,
  fraud: 1,
  gateway: 13,
  returns: 10,
  webhooks: 5,
};

test('every migration says which release it fits', async () => {
  const silent: string[] = [];
  for (const schema of SCHEMAS) {
    for (const { name, text } of await migrationsOf(schema)) {
      const parts = name.split('/');
      const number = Number(parts.pop()?.slice(0, 4));
      const last = EARLIER[parts.length > 0 ? parts.join('/') : schema.name] ?? 0;
      if (number > last && !/^-- fits: /m.test(text)) silent.push(`${schema.name}: ${name}`);
    }
  }
  expect(silent).toEqual([]);
});
