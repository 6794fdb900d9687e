import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { until } from '../../../test/kit/until.ts';
import { allInOrder } from './all-in-order.ts';
import { onlyRow } from './only-row.ts';
import { isOutage } from './outage.ts';
import { createPool, inTransaction, violatedConstraint } from './postgres.ts';
import { sharedWithTimeout } from './shared-with-timeout.ts';

describe('postgres', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('gateway');
  });
  afterAll(() => database.drop());

  const failing = (sql: string, values: unknown[] = []) =>
    database.pool.query(sql, values).then(
      () => {
        throw new Error('it was to fail');
      },
      (error: unknown) => error,
    );

  test('int8 arrives as bigint, numeric and date as text, time as Date', async () => {
    const { rows } = await database.pool.query(
      `select 9007199254740993::int8 as id, '{1,null}'::int8[] as ids, '{}'::int8[] as none,
              0.10::numeric as price, date '2026-03-29' as day,
              timestamptz '2026-03-29 01:30:00+00' as at`,
    );
    expect(rows[0]).toEqual({
      id: 9_007_199_254_740_993n,
      ids: [1n, null],
      none: [],
      price: '0.10',
      day: '2026-03-29',
      at: new Date('2026-03-29T01:30:00Z'),
    });
  });

  test('a connection that is lost with the first response to it fails a call, not the process', async () => {
    const { hostname, port, pathname, username, password } = new URL(database.url);
    const fields = ['SFATAL', 'VFATAL', 'C57P01', 'Mterminating connection', ''].join('\0');
    const lost = Buffer.from(`E\0\0\0\0${fields}\0`);
    lost.writeInt32BE(lost.length - 1, 1);
    // After the login, the server is ready; after the first statement it is ready once more, and ends the connection.
    const server = createServer((socket) => {
      const upstream = connect(Number(port), hostname);
      let ready = 0;
      upstream.on('data', (data) => {
        if (data.subarray(-6, -1).equals(Buffer.from('Z\0\0\0\u0005'))) ready += 1;
        socket.write(ready === 2 ? Buffer.concat([data, lost]) : data);
      });
      socket.on('data', (data) => upstream.write(data)).on('close', () => upstream.destroy());
      for (const one of [socket, upstream]) one.on('error', () => {});
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const at = server.address() as AddressInfo;
    const pool = createPool(`postgres://${username}:${password}@127.0.0.1:${at.port}${pathname}`);
    await expect(pool.query('select 1')).rejects.toThrow();
    await pool.end();
    server.close();
  });

  test('the parsers belong to the pool', () => {
    expect(pg.types.getTypeParser(pg.types.builtins.INT8)('1')).toBe('1');
  });

  test('a transaction that rejects has no effect, and its connection is used again', async () => {
    const pool = createPool(database.url, { max: 1 });
    const work = inTransaction(pool, async (tx) => {
      await tx.query(`insert into leases values ('undone', 'x', 1, now())`);
      throw new Error('no');
    });
    await expect(work).rejects.toThrow('no');
    const { rowCount } = await pool.query(`select from leases where name = 'undone'`);
    expect(rowCount).toBe(0);
    expect(pool.totalCount).toBe(1);
    await pool.end();
  });

  test('a connection that is lost inside a transaction does not return to the pool', async () => {
    const pool = createPool(database.url, { max: 1 });
    const work = inTransaction(pool, (tx) =>
      tx.query('select pg_terminate_backend(pg_backend_pid())'),
    );
    expect(isOutage(await work.catch((error: unknown) => error))).toBe(true);
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await pool.end();
  });

  test('a connection to a demoted primary does not return to the pool', async () => {
    const pool = createPool(database.url, { max: 1 });
    const backend = async () =>
      (await pool.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;
    const before = await backend();
    const work = inTransaction(pool, async (tx) => {
      await tx.query('set transaction read only');
      await tx.query(`insert into leases values ('refused', 'x', 1, now())`);
    });
    expect(isOutage(await work.catch((error: unknown) => error))).toBe(true);
    expect(await backend()).not.toBe(before);
    await pool.end();
  });

  test('a hanging server causes an error within the limit, inside a transaction as well', async () => {
    // Sends no data after the login, like a halted server.
    const silent = createServer((socket) => {
      const upstream = connect(Number(new URL(database.url).port), '127.0.0.1');
      socket.on('error', () => upstream.destroy());
      upstream.on('error', () => socket.destroy());
      socket.on('data', (data) => {
        if (halted) unanswered += data.toString('latin1');
        upstream.write(data);
      });
      upstream.on('data', (data) => {
        if (!halted) socket.write(data);
      });
      socket.on('close', () => upstream.destroy());
    });
    let halted = false;
    let unanswered = '';
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const url = new URL(database.url);
    url.port = String(Reflect.get(silent.address() ?? {}, 'port'));
    const pool = createPool(url.href, { max: 1, statementTimeoutMs: 100 });
    // A slow machine causes the same error. Then the test repeats the query.
    const answered = () =>
      until(() =>
        pool.query('select 1').then(
          () => true,
          () => false,
        ),
      );
    await answered();
    halted = true;
    const work = inTransaction(pool, (tx) => tx.query('select 1'));
    expect(isOutage(await work.catch((error: unknown) => error))).toBe(true);
    // The limit applies once: after a statement without an answer, no rollback is sent.
    await until(() => /begin/i.test(unanswered));
    expect(unanswered).not.toMatch(/rollback/i);
    halted = false;
    await answered();
    await pool.end();
    silent.close();
  });

  test('names the violated constraint', async () => {
    const check = await failing(`insert into leases values ('', 'x', 1, now())`);
    expect(violatedConstraint(check)).toBe('leases_name_check');
    await database.pool.query(`insert into leases values ('twice', 'x', 1, now())`);
    const unique = await failing(`insert into leases values ('twice', 'x', 1, now())`);
    expect(violatedConstraint(unique)).toBe('leases_pkey');
    expect(violatedConstraint(await failing('select 1 / 0'))).toBeUndefined();
    expect(violatedConstraint(new Error('leases_pkey'))).toBeUndefined();
  });

  test('distinguishes an outage from a bug', async () => {
    const pool = createPool('postgres://x@127.0.0.1:1/x');
    expect(isOutage(await pool.query('select 1').catch((error: unknown) => error))).toBe(true);
    await pool.end();
    const statement = `set statement_timeout = 5; select pg_sleep(1)`;
    const client = await database.pool.connect();
    expect(isOutage(await client.query(statement).catch((error: unknown) => error))).toBe(true);
    client.release(true);
    expect(isOutage(await failing('select 1 / 0'))).toBe(false);
    expect(isOutage(await failing(`insert into leases values ('', 'x', 1, now())`))).toBe(false);
    expect(isOutage(new TypeError('a bug'))).toBe(false);
    expect(isOutage(undefined)).toBe(false);
  });
});

test('the only row is returned', () => {
  expect(onlyRow({ rows: [{ id: 5n }] })).toEqual({ id: 5n });
});

test.each([0, 2])('%i rows are a bug', (count) => {
  const rows = Array.from({ length: count }, (_, id) => ({ id }));
  expect(() => onlyRow({ rows })).toThrow(`returned ${count} rows instead of one`);
});

describe('all in order', () => {
  test('resolves with all results', async () => {
    expect(await allInOrder([Promise.resolve('a'), Promise.resolve(1n)])).toEqual(['a', 1n]);
  });

  test('rejects with the first failure in order, even if a later one failed earlier', async () => {
    const first = Promise.withResolvers<never>();
    const all = allInOrder([first.promise, Promise.reject(new Error('second'))]);
    await Promise.resolve();
    first.reject(new Error('first'));
    await expect(all).rejects.toThrow('first');
  });
});

test('a hanging query times out and is not started again in the meantime', async () => {
  let asked = 0;
  let answer: (text: string) => void = () => {};
  const ask = sharedWithTimeout(() => {
    asked += 1;
    return new Promise<string>((resolve) => {
      answer = resolve;
    });
  });
  expect(await ask()).toBeUndefined();
  const second = ask();
  answer('late');
  expect(await second).toBe('late');
  expect(asked).toBe(1);
  const third = ask();
  answer('again');
  expect([await third, asked]).toEqual(['again', 2]);
});

test('a failed query rejects', async () => {
  const ask = sharedWithTimeout(() => Promise.reject(new Error('unavailable')));
  await expect(ask()).rejects.toThrow('unavailable');
});
