import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { createPool, type Queryable } from '../../platform/postgres.ts';
import { claimDue } from './claim.ts';

/** Deliveries in the log of the endpoint, whether they wait or are done. */
const DELIVERIES = 20_000;

let db: TestDatabase;
let migrator: pg.Client;
/** One connection, so that it is known whose reads are counted. */
let pool: pg.Pool;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  migrator = new pg.Client({ connectionString: db.migratorUrl });
  await migrator.connect();
  // Its reads would count among ours.
  await migrator.query('alter table webhooks.deliveries set (autovacuum_enabled = off)');
  pool = createPool(db.url, { max: 1 });
  await seed();
});
afterAll(async () => {
  await pool.end();
  await migrator.end();
  await db.drop();
});

/** One endpoint with all its deliveries done. */
function seed(): Promise<unknown> {
  return db.pool.query(
    `with e as (
       insert into endpoints (shop_id, url, url_sha256) values (1, 'https://a.example/', sha256('a')) returning id
     ), s as (
       insert into subscriptions (shop_id, topic, trigger, endpoint_id, status)
       select 1, 'return', 'return.closed', e.id, 'active' from e returning id, endpoint_id
     ), p as (
       insert into payloads (shop_id, event_id, topic, api_version, body)
       values (1, gen_random_uuid(), 'return', '2026-10', '{}') returning id
     )
     insert into deliveries (shop_id, id, subscription_id, endpoint_id, payload_id, event_id, trigger, topic,
       api_version, state, finished_at)
     select 1, gen_random_uuid(), s.id, s.endpoint_id, p.id, gen_random_uuid(), 'return.closed', 'return',
       '2026-10', 'delivered', now()
       from s, p, generate_series(1, $1)`,
    [DELIVERIES],
  );
}

/** Makes so many due, the rest done, and counts the blocks that one claim looks at. */
async function blocksOfClaim(due: number): Promise<number> {
  await db.pool.query(
    `update deliveries d
        set state = case when n.n <= $1 then 'waiting' else 'delivered' end,
            next_attempt_at = case when n.n <= $1 then now() end,
            finished_at = case when n.n <= $1 then null else now() end,
            lease_token = null, lease_expires_at = null
       from (select shop_id, id, row_number() over (order by position) as n from deliveries) n
      where d.shop_id = n.shop_id and d.id = n.id`,
    [due],
  );
  await migrator.query('vacuum analyze webhooks.deliveries');
  const before = await blocksRead(pool);
  expect(await claimDue(pool, { limit: 100, offsetMs: 0 })).toHaveLength(8);
  return (await blocksRead(pool)) - before;
}

/** Blocks of deliveries and its indexes that anybody has looked at so far. */
async function blocksRead(one: Queryable): Promise<number> {
  await one.query('select pg_stat_force_next_flush()');
  const { rows } = await one.query<{ blocks: number }>(
    `select (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::float8 as blocks
       from pg_statio_user_tables where relname = 'deliveries'`,
  );
  return rows[0]?.blocks ?? Number.NaN;
}

describe('the work of a claim', () => {
  test('does not grow with the backlog of an endpoint', async () => {
    const few = await blocksOfClaim(100);
    const many = await blocksOfClaim(DELIVERIES);
    expect(few).toBeGreaterThan(0);
    expect(many).toBeLessThanOrEqual(1.5 * few);
  });
});
