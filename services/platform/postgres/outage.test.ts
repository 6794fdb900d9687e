import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { actor, newReturn, newShop, reload } from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { forCaller } from '../rpc/caller.ts';
import { createLogger } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { serveCallers, waitingFor } from './caller-pool.ts';
import { watchRejections } from './database-rejections.ts';
import { isOutage } from './outage.ts';
import { createPool, inTransaction } from './postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

describe('outage', () => {
  let migrator: pg.Client;
  beforeAll(async () => {
    migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
  });
  afterAll(() => migrator.end());

  const failureOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    );

  async function loginFailure(change: (url: URL) => void): Promise<unknown> {
    const url = new URL(database.url);
    change(url);
    const pool = createPool(url.href, { max: 1 });
    const failure = await failureOf(pool.query('select 1'));
    await pool.end();
    return failure;
  }

  describe('an outage', () => {
    test('is a login that the server rejects', async () => {
      const failure = await loginFailure((url) => {
        url.username = 'rms_nobody';
      });
      expect(failure).toMatchObject({ code: '28000' });
      expect(isOutage(failure)).toBe(true);
    });

    test('is a database that does not exist', async () => {
      const failure = await loginFailure((url) => {
        url.pathname = '/not_there';
      });
      expect(failure).toMatchObject({ code: '3D000' });
      expect(isOutage(failure)).toBe(true);
    });

    test('is a server without the requested encryption', async () => {
      const failure = await loginFailure((url) => {
        url.searchParams.set('sslmode', 'verify-full');
      });
      expect(isOutage(failure)).toBe(true);
    });

    test('is a lost grant, and ends when it is granted again', async () => {
      await migrator.query('revoke select on gateway.leases from rms_gateway');
      const failure = await failureOf(database.pool.query('select from leases'));
      expect(failure).toMatchObject({ code: '42501' });
      expect(isOutage(failure)).toBe(true);
      await migrator.query('grant select on gateway.leases to rms_gateway');
      await database.pool.query('select from leases');
    });

    test.each([
      ['schema', 'create table nowhere.t ()', '3F000'],
      ['table', 'select from not_there', '42P01'],
      ['column', 'select not_there from leases', '42703'],
      ['function', 'select not_there()', '42883'],
      ['prepared statement', 'execute not_there', '26000'],
    ])('is a %s that the database does not have', async (_, statement, code) => {
      const failure = await failureOf(database.pool.query(statement));
      expect(failure).toMatchObject({ code });
      expect(isOutage(failure)).toBe(true);
    });

    test('is a statement that was prepared before a migration', async () => {
      const client = new pg.Client({ connectionString: database.migratorUrl });
      await client.connect();
      await client.query('create temporary table t (a integer)');
      const prepared = { name: 'read', text: 'select * from t' };
      await client.query(prepared);
      await client.query('alter table t add column b integer');
      const failure = await failureOf(client.query(prepared));
      await client.end();
      expect(failure).toMatchObject({ code: '0A000' });
      expect(isOutage(failure)).toBe(true);
    });

    test.each(['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'SELF_SIGNED_CERT_IN_CHAIN'])(
      'is a certificate that is not accepted (%s)',
      (code) => {
        expect(isOutage(Object.assign(new Error('certificate'), { code }))).toBe(true);
      },
    );

    test.each([
      ['a value', 'select 1 / 0', '22012'],
      ['a constraint', `insert into leases values ('', 'x', 1, now())`, '23514'],
      ['what the server cannot do', 'select * from a.b.c', '0A000'],
      ['the statement', 'selekt', '42601'],
    ])('is not the fault of %s', async (_, statement, code) => {
      const failure = await failureOf(database.pool.query(statement));
      expect(failure).toMatchObject({ code });
      expect(isOutage(failure)).toBe(false);
    });
  });

  test('a connection with a wrong search path is replaced', async () => {
    const pool = createPool(database.url, { max: 1 });
    await pool.query('set search_path to nowhere');
    const read = () => inTransaction(pool, (tx) => tx.query('select from leases'));
    expect(await failureOf(read())).toMatchObject({ code: '42P01' });
    await read();
    await pool.end();
  });
});

describe('failover', () => {
  let db: TestDatabase;
  let migrator: pg.Client;
  beforeAll(async () => {
    db = await createTestDatabase('returns');
    migrator = new pg.Client({ connectionString: db.migratorUrl });
    await migrator.connect();
  });
  afterAll(async () => {
    await migrator.end();
    await db.drop();
  });

  /** The last values of all sequences of the schema. */
  async function sequences(): Promise<Map<string, bigint>> {
    const { rows } = await migrator.query<{ name: string; at: string }>(
      `select sequencename as name, coalesce(last_value, start_value)::text as at from pg_sequences
      where schemaname = 'returns'`,
    );
    return new Map(rows.map(({ name, at }) => [name, BigInt(at)]));
  }

  /** The schema was written last on a timeline that is not that of the server, as after a promotion. */
  async function promote(): Promise<void> {
    await migrator.query('update returns.server_timeline set timeline = timeline + 1');
  }

  /** Opens this many connections at once, as a process does at its start. */
  async function connect(count: number): Promise<void> {
    const pool = createPool(db.url, { max: count });
    await Promise.all(Array.from({ length: count }, () => pool.query('select pg_sleep(0)')));
    await pool.end();
  }

  const GAP = 1_000_000n;

  test('connections on the same timeline change no sequence', async () => {
    const before = await sequences();
    await connect(2);
    expect(await sequences()).toEqual(before);
  });

  test('the first of many connections on another timeline leaves one gap in every sequence', async () => {
    await newReturn(db.pool, await newShop(db.pool));
    const before = await sequences();
    await promote();
    await connect(8);
    const after = await sequences();
    expect([...after.keys()]).toEqual([...before.keys()]);
    expect(after.size).toBeGreaterThan(10);
    for (const [name, at] of after) {
      // Some ids have at most nine digits. Their gap is a thousandth of the rest.
      const gap = at - (before.get(name) ?? 0n);
      const isOneGap = gap > 999_000n && gap <= GAP;
      expect({ name, gap, isOneGap }).toEqual({ name, gap, isOneGap: true });
    }
  });

  test('the next revision of each return is above the lost ones, and those after it add one', async () => {
    const shopId = await newShop(db.pool);
    const [one, other] = [await newReturn(db.pool, shopId), await newReturn(db.pool, shopId)];
    const changed = async (of: typeof one) => {
      const by = { shopId, actor, returnId: of.id };
      await storeOf(db.pool).change(by, async (tx) => {
        await tx.query(
          'update returns set package_reference = package_reference || $3 where shop_id = $1 and id = $2',
          [shopId, of.id, 'x'],
        );
        return { value: undefined };
      });
      return (await reload(db.pool, of)).revision;
    };
    const known = await changed(one);
    await promote();
    await connect(1);
    const first = await changed(one);
    expect(first).toBeGreaterThanOrEqual(known + GAP);
    expect(first).toBeLessThan(2n ** 31n);
    expect(await changed(one)).toBe(first + 1n);
    await promote();
    await connect(1);
    expect(await changed(one)).toBeGreaterThan(first + 1n);
    expect(await changed(other)).toBeGreaterThan(first + GAP - 1n);
  });
});

describe('database rejections', () => {
  let telemetry: Telemetry;
  let lines: { readonly sqlstate?: string }[];
  beforeEach(async () => {
    telemetry = await testTelemetry();
    lines = [];
  });

  /** A pool whose rejections are logged and counted. */
  function watchedPool(url: string): pg.Pool {
    const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
    const logger = createLogger({ service: 'gateway', level: 'info', destination });
    const refusals = watchRejections(logger, url);
    refusals.measure(telemetry.meter);
    return createPool(url, { onServerError: refusals.note });
  }

  const metrics = async () => (await fetch(telemetry.metricsUrl)).text();

  test('a lost grant is logged once with role and SQLSTATE, and counted each time', async () => {
    const migrator = new pg.Client({ connectionString: database.migratorUrl });
    await migrator.connect();
    await migrator.query('revoke select on gateway.leases from rms_gateway');
    const pool = watchedPool(database.url);
    for (let time = 0; time < 3; time += 1) {
      await expect(pool.query('select from leases')).rejects.toThrow();
    }
    await migrator.query('grant select on gateway.leases to rms_gateway');
    await pool.query('select from leases');
    expect(lines).toMatchObject([
      {
        level: 'error',
        role: 'rms_gateway',
        database: new URL(database.url).pathname.slice(1),
        sqlstate: '42501',
        cause: 'permission denied for table leases',
      },
    ]);
    expect(await metrics()).toMatch(/^database_refusals_total\{sqlstate="42501"\} 3$/m);
    await Promise.all([pool.end(), migrator.end(), telemetry.stop()]);
  });

  test('a rejected login is logged and counted', async () => {
    const url = new URL(database.url);
    url.username = 'rms_nobody';
    const pool = watchedPool(url.href);
    await expect(pool.query('select 1')).rejects.toThrow();
    expect(lines).toMatchObject([{ role: 'rms_nobody', sqlstate: '28000' }]);
    expect(await metrics()).toMatch(/^database_refusals_total\{sqlstate="28000"\} 1$/m);
    await Promise.all([pool.end(), telemetry.stop()]);
  });

  test('errors caused by data, and temporary ones, are not logged or counted', async () => {
    const pool = watchedPool(database.url);
    await expect(pool.query('select 1 / 0')).rejects.toThrow();
    await expect(pool.query('select pg_terminate_backend(pg_backend_pid())')).rejects.toThrow();
    expect(lines).toEqual([]);
    expect(await metrics()).not.toMatch(/^database_refusals_total\{/m);
    await Promise.all([pool.end(), telemetry.stop()]);
  });
});

describe('a pool that serves callers', () => {
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
