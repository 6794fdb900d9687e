import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { isOutage } from './outage.ts';
import { createPool, inTransaction } from './postgres.ts';

let database: TestDatabase;
let migrator: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase('gateway');
  migrator = new pg.Client({ connectionString: database.migratorUrl });
  await migrator.connect();
});
afterAll(async () => {
  await migrator.end();
  await database.drop();
});

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
