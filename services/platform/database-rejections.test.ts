import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { testTelemetry } from '../../test/kit/services/telemetry.ts';
import { watchRejections } from './database-rejections.ts';
import { createLogger } from './log.ts';
import { createPool } from './postgres.ts';
import type { Telemetry } from './telemetry.ts';

let database: TestDatabase;
let telemetry: Telemetry;
let lines: { readonly sqlstate?: string }[];
beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());
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
