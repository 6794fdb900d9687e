import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import {
  createEmptyDatabase,
  createTestDatabase,
  type TestDatabase,
} from '../../../test/kit/database.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { until } from '../../../test/kit/until.ts';
import { checkUpdate } from './fits.ts';
import { type MigrateOptions, migrate } from './migrate.ts';
import { createPool } from './postgres.ts';
import { RELEASE } from './release.ts';
import { schemaState } from './schema-state.ts';
import type { SchemaDefinition } from './schemas.ts';

/** The release before this one. */
const PREVIOUS = '0.9.0';

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

  const write = (name: string, sql: string, fits = PREVIOUS) =>
    writeFileSync(join(folder, name), `-- fits: ${fits}\n${sql}`);
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

  test('waits for a table in use without blocking other sessions for long', async () => {
    await run();
    write('0002_more.sql', 'alter table things add name text');
    const [reader, other] = [new pg.Client(database.url), new pg.Client(database.url)];
    await Promise.all([reader.connect(), other.connect()]);
    await reader.query('begin');
    await reader.query('select from carts.things');
    const migrating = run();
    await until(async () => (await lockWaits(other)) > 0);
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
    await expect(run({ tableTimeoutMs: 0 })).rejects.toThrow(
      /0002_more.sql failed: .*lock timeout/,
    );
    await reader.end();
  });

  test('concurrent migrations run one after the other, and each file is applied once', async () => {
    const counts = await Promise.all([run(), run(), run()]);
    expect(counts.toSorted()).toEqual([0, 0, 2]);
  });

  test('a file that was changed after it was applied is rejected by name', async () => {
    await run();
    write('0001_things.sql', 'create table things (id int)');
    await expect(run()).rejects.toThrow('0001_things.sql was changed after it was applied');
  });

  /** As if a newer release had applied 0002_later.sql, which says what it fits. */
  const migrateAhead = async (fits: string) => {
    write('0002_later.sql', 'create table later (id int)');
    await run();
    rmSync(join(folder, '0002_later.sql'));
    await asMigrator(
      `update carts.schema_migrations set fits = '${fits}' where name = '0002_later.sql'`,
    );
  };
  const asMigrator = async (sql: string) => {
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query(sql);
    await client.end();
  };
  const update = async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      return await checkUpdate(client, [schema]);
    } finally {
      await client.end();
    }
  };

  test('a newer database that fits this release is left as it is, so that a release can be taken back', async () => {
    await migrateAhead(RELEASE);
    expect(await run()).toBe(0);
    await asService((pool) => pool.query('select from later'));
    expect(await update()).toMatchObject({ isPossible: true });
  });

  test('a newer database that does not fit is rejected by the release that it needs', async () => {
    await migrateAhead('999.0.0');
    const why = `newer than this code, which lacks 0002_later.sql: it needs release 999.0.0, this is ${RELEASE}`;
    await expect(run()).rejects.toThrow(why);
    expect(await update()).toEqual({ isPossible: false, detail: expect.stringContaining(why) });
  });

  test('a database with a migration of another release is rejected while one of ours is missing', async () => {
    await migrateAhead(RELEASE);
    write('0003_mine.sql', 'create table mine (id int)');
    await expect(run()).rejects.toThrow(
      'has 0002_later.sql of another release, and lacks 0003_mine.sql',
    );
    await expect(asService((pool) => pool.query('select from mine'))).rejects.toThrow('not exist');
  });

  test('a rolling update is possible while the missing migrations fit what runs', async () => {
    await run();
    await asMigrator(`update carts.schema_release set release = '${PREVIOUS}'`);
    write('0002_adds.sql', 'alter table things add name text');
    expect(await update()).toEqual({
      isPossible: true,
      detail: `rolling update to ${RELEASE}, and back: possible (1 migration(s) to apply)`,
    });
    write('0003_drops.sql', '-- takes away: things.name\nselect 1', RELEASE);
    expect(await update()).toEqual({
      isPossible: false,
      detail: `rolling update from ${PREVIOUS} to ${RELEASE}: not possible: carts: 0003_drops.sql needs release ${RELEASE} or later; stop all processes of ${PREVIOUS} first`,
    });
    await run();
    expect(await update()).toMatchObject({ isPossible: true });
  });

  test('a file that does not fit the release before says what it takes away', async () => {
    write('0002_drops.sql', 'alter table things drop column id', RELEASE);
    await expect(run()).rejects.toThrow('does not fit the release before');
    write('0002_drops.sql', 'select 1', '999.0.0');
    await expect(run()).rejects.toThrow(
      '0002_drops.sql: fits 999.0.0, but the release of this code',
    );
    // The first file of a folder takes nothing away.
    rmSync(join(folder, '0002_drops.sql'));
    write('0001_things.sql', 'create table things (id bigint primary key)', RELEASE);
    expect(await run()).toBe(2);
  });

  test('a file that does not say which release it fits is rejected by name', async () => {
    writeFileSync(join(folder, '0002_silent.sql'), 'select 1');
    await expect(run()).rejects.toThrow('0002_silent.sql: say which release it fits');
  });

  test('waits for a database that does not accept connections yet', async () => {
    const { port } = new URL(database.url);
    const [free] = await freePorts(1);
    const url = new URL(database.url);
    url.port = String(free);
    const proxy = createServer((socket) => {
      const upstream = connect(Number(port), '127.0.0.1');
      socket.pipe(upstream).pipe(socket);
      for (const one of [socket, upstream]) one.on('error', () => one.destroy());
    });
    const waits: string[] = [];
    const onWait = (reason: string) => {
      waits.push(reason);
      proxy.listen(free, '127.0.0.1');
    };
    expect(await run({ databaseUrl: url.href, databaseWaitMs: 60_000, onWait })).toBe(2);
    expect(waits).toEqual(['ECONNREFUSED']);
    proxy.close();
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

// While the index is built, calls have read the table and wait to write. The drop would wait for them, and they for it.
test('no file builds an index and then drops one', () => {
  const files = globSync('{services,gateway}/**/migrations/**/*.sql');
  expect(files).toContain('services/returns/migrations/0008_jobs_by_lease.sql');
  const later = /^create (?:unique )?index\b[\s\S]*^drop index\b/im;
  expect(files.filter((file) => later.test(readFileSync(file, 'utf8')))).toEqual([]);
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
    const sql = `insert into schema_migrations (name, sha256, fits) values ('0999_next.sql', 'x', '999.0.0')`;
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
