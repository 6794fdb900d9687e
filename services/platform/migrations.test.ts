import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import {
  createEmptyDatabase,
  createTestDatabase,
  type TestDatabase,
} from '../../test/kit/database.ts';
import { until } from '../../test/kit/until.ts';
import { type MigrateOptions, migrate } from './migrate.ts';
import { schemaState } from './migrations.ts';
import { createPool } from './postgres.ts';
import type { SchemaDefinition } from './schemas.ts';

describe('migrate', () => {
  let database: Awaited<ReturnType<typeof createEmptyDatabase>>;
  let folder: string;
  let schema: SchemaDefinition;
  beforeEach(async () => {
    database = await createEmptyDatabase();
    folder = mkdtempSync(join(tmpdir(), 'migrations-'));
    schema = { name: 'carts', folder: pathToFileURL(`${folder}/`), capabilities: ['leases'] };
    write('0001_things.sql', 'create table things (id bigint primary key)');
  });
  afterEach(async () => {
    rmSync(folder, { recursive: true });
    await database.drop();
  });

  const write = (name: string, sql: string) => writeFileSync(join(folder, name), sql);
  const run = (o: Partial<MigrateOptions> = {}) =>
    migrate({ databaseUrl: database.url, schemas: [schema], ...o });
  const asService = async <T>(work: (pool: pg.Pool) => Promise<T>): Promise<T> => {
    const url = new URL(database.url);
    url.username = 'rms_carts';
    const pool = createPool(url.href);
    try {
      return await work(pool);
    } finally {
      await pool.end();
    }
  };

  test('applies missing migrations in order, and reports them', async () => {
    const applied: string[] = [];
    const onApplied = (_: string, name: string) => applied.push(name);
    write('0002_more.sql', 'alter table things add name text');
    expect(await run({ onApplied })).toBe(3);
    expect(applied).toEqual([
      'platform/leases/0001_leases.sql',
      '0001_things.sql',
      '0002_more.sql',
    ]);
    write('0003_most.sql', 'alter table things add size int');
    expect(await run()).toBe(1);
    expect(await run()).toBe(0);
  });

  test('waits for a table in use without blocking others for long', async () => {
    await run();
    write('0002_more.sql', 'alter table things add name text');
    const [reader, other] = [new pg.Client(database.url), new pg.Client(database.url)];
    await Promise.all([reader.connect(), other.connect()]);
    await reader.query('begin');
    await reader.query('select from carts.things');
    const migrating = run();
    const isWaiting = async () => {
      const { rows } = await other.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rows.length > 0;
    };
    await until(isWaiting);
    await other.query('set statement_timeout = 5000');
    await other.query('select from carts.things');
    await reader.query('commit');
    expect(await migrating).toBe(1);
    await Promise.all([reader.end(), other.end()]);
  });

  test('reports a table that never becomes free', async () => {
    await run();
    write('0002_more.sql', 'alter table things add name text');
    const reader = new pg.Client(database.url);
    await reader.connect();
    await reader.query('begin');
    await reader.query('select from carts.things');
    await expect(run({ patienceMs: 0 })).rejects.toThrow(/0002_more.sql failed: .*lock timeout/);
    await reader.end();
  });

  test('two at once run one after the other, and each file is applied once', async () => {
    const counts = await Promise.all([run(), run(), run()]);
    expect(counts.toSorted()).toEqual([0, 0, 2]);
  });

  test('a file that was changed after it was applied is rejected by name', async () => {
    await run();
    write('0001_things.sql', 'create table things (id int)');
    await expect(run()).rejects.toThrow('0001_things.sql was changed after it was applied');
  });

  test('a database that is newer than the code is rejected and stays unchanged', async () => {
    write('0002_later.sql', 'create table later (id int)');
    await run();
    rmSync(join(folder, '0002_later.sql'));
    write('0003_mine.sql', 'create table mine (id int)');
    await expect(run()).rejects.toThrow('newer than this code, which lacks 0002_later.sql');
    await expect(asService((pool) => pool.query('select from mine'))).rejects.toThrow('not exist');
  });

  test('a failing file has no effect, and earlier files stay applied', async () => {
    write('0002_bad.sql', 'create table half (id int); select 1 / 0');
    await expect(run()).rejects.toThrow('carts: 0002_bad.sql failed: division by zero');
    await asService((pool) => pool.query('select from things'));
    await expect(asService((pool) => pool.query('select from half'))).rejects.toThrow('not exist');
  });

  test('two files with one number, or a file without one, are rejected', async () => {
    write('0001_again.sql', 'select 1');
    await expect(run()).rejects.toThrow('each number once');
    rmSync(join(folder, '0001_again.sql'));
    write('things.sql', 'select 1');
    await expect(run()).rejects.toThrow('NNNN_words.sql');
  });

  test('the role of a service reads and writes only its own schema', async () => {
    const other = { ...schema, name: 'fraud' };
    await run({ schemas: [schema, other] });
    await asService(async (pool) => {
      await pool.query('insert into things values (1)');
      await expect(pool.query('select from fraud.things')).rejects.toThrow('permission denied');
      await expect(pool.query('create table mine (id int)')).rejects.toThrow('permission denied');
      await expect(pool.query('create table public.mine (id int)')).rejects.toThrow(
        'permission denied',
      );
      await expect(pool.query('delete from schema_migrations')).rejects.toThrow(
        'permission denied',
      );
    });
  });
});

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
    expect(await schemaState(database.pool, 'destinations')).toMatchObject({ state: 'current' });
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
