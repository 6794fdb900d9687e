import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { vacuum } from '../../../test/kit/postgres/plans.ts';
import { leaseOne, newReturn, newShop, runDeps } from '../../../test/kit/services/processing.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import { createPool } from '../../platform/postgres/postgres.ts';
import { claimJobs, untilNextDueMs } from './jobs.ts';
import { runJob } from './run.ts';

const ENDED = 1_500;
/** 8 KiB each: an index has 2 or 3 levels. All entries of the ended jobs are at least 40 in one statement. */
const BUFFERS_MAX = 130;

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

test('a call, its run and a search for due jobs read no ended jobs, although a dump keeps their index entries', async () => {
  const shopId = await newShop(db.pool);
  const { id } = await newReturn(db.pool, shopId);
  const dump = new pg.Client({ connectionString: db.migratorUrl });
  await dump.connect();
  await dump.query('begin isolation level repeatable read; select from returns.returns');
  await db.pool.query(`do $$ declare made bigint; begin
    for n in 1..${ENDED} loop
      insert into processing_jobs (shop_id, return_id, state, lease_token, due_at, details, source, actor, traceparent)
      values (${shopId}, ${id}, 'running', n, now() - interval '1 hour', '{}', '', '', '') returning id into made;
      update processing_jobs set state = 'done', finished_at = now() where shop_id = ${shopId} and id = made;
    end loop;
  end $$`);
  await vacuum(db.migratorUrl);
  const pool = createPool(db.url, { max: 1 });
  const buffersOf = async (work: () => Promise<unknown>): Promise<number> => {
    await work();
    await pool.query('select pg_stat_force_next_flush()');
    const read = `select (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int as buffers
      from pg_statio_user_tables where relname = 'processing_jobs'`;
    return onlyRow(await pool.query<{ buffers: number }>(read)).buffers;
  };
  const process = async () => {
    const job = await leaseOne(pool, await newReturn(pool, shopId));
    await runJob(runDeps(pool, createEmbeddedCommerce(pool)), job, AbortSignal.any([]));
    await claimJobs(pool, 1);
    await untilNextDueMs(pool);
  };
  const before = await buffersOf(process);
  const after = await buffersOf(process);
  await Promise.all([pool.end(), dump.end()]);
  expect(after - before).toBeLessThan(BUFFERS_MAX);
});
