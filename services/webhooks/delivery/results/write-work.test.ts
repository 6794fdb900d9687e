import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { openSecondPool } from '../../../platform/postgres.ts';
import { shardLease } from '../../../platform/shard-leases.ts';
import { NO_TIMING, type SendResult } from '../../sender/send-result.ts';
import { DISPATCHER_POOL } from '../../start.ts';
import { DELIVERY_LEASES } from '../queue/queue-ref.ts';
import { readDue } from '../queue/read-due.ts';
import type { AttemptResult } from './attempt-result.ts';
import { writeResults } from './write-results.ts';

const SHARD = 1;
const TOKEN = 1n;

let db: TestDatabase;
let migrator: pg.Client;
/** One connection, so that its plans date from when few deliveries waited. */
let pool: pg.Pool;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  migrator = new pg.Client({ connectionString: db.migratorUrl });
  await migrator.connect();
  // Without autovacuum the statistics stay as they are, so the plans do not change during the test.
  await migrator.query('alter table webhooks.queue set (autovacuum_enabled = off)');
  pool = openSecondPool(db.pool, { ...DISPATCHER_POOL, max: 1 });
  await db.pool.query(
    `insert into leases (name, owner, token, expires_at) values ($1, 'test', $2, now() + interval '1 hour')`,
    [shardLease(DELIVERY_LEASES, SHARD), TOKEN],
  );
});
afterAll(async () => {
  await pool.end();
  await migrator.end();
  await db.drop();
});

/** A shop with one queue. */
async function addShop(shopId: bigint): Promise<void> {
  await db.pool.query(
    `with e as (
       insert into endpoints (shop_id, id, url, url_sha256) overriding system value
       values ($1, 1, 'https://a.example/', sha256('a'))
     ), s as (
       insert into subscriptions (shop_id, id, topic, trigger, endpoint_id, status) overriding system value
       values ($1, 1, 'return', 'return.closed', 1, 'active')
     ), c as (
       insert into secrets (shop_id, subscription_id, key_id, sealed) values ($1, 1, 'k', 'sealed')
     )
     insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     values ($1, 1, 1, 'return', 'return.closed', $2, true)`,
    [shopId, SHARD],
  );
}

/** Due deliveries of its queue, with ids of one day. */
async function addDeliveries(shopId: bigint, count: number): Promise<void> {
  await db.pool.query(
    `with given as (
       select (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0')
                || substr(md5(random()::text), 1, 20))::uuid as id
         from generate_series(1, $2)
     ), bodies as (
       insert into payloads (shop_id, id, event_id, trigger, topic, api_version, body)
       select $1, id, id, 'return.closed', 'return', '2026-10', '{}' from given
     )
     insert into queue (shop_id, subscription_id, id, payload_id, bytes, next_attempt_at, queued_at)
     select $1, 1, id, id, 2, now(), now() from given`,
    [shopId, count],
  );
}

const DELIVERED: SendResult = {
  kind: 'delivered',
  startedAt: new Date(),
  durationMs: 1,
  timing: NO_TIMING,
  status: 200,
  error: '',
  excerpt: '',
  headers: '',
  retryAfterMs: undefined,
};

/** Half of the deliveries succeed, the rest is retried. Returns their number. */
async function sendAndSettle(shopId: bigint, limit: number): Promise<number> {
  const queue = { shopId, subscriptionId: 1n, endpointId: 1n, freshFromMs: 0, retriesFromMs: 0 };
  const due = await readDue(pool, [{ ...queue, mode: 'all', healthClass: 'trusted', limit }], {
    except: [],
    maxBytes: { trusted: 1e9, new: 0, slow: 0, failing: 0 },
    offsetMs: 0,
  });
  const attemptResults = due.map((one, nth): AttemptResult => {
    const common = { due: one, token: TOKEN };
    if (nth % 2 === 0) {
      const sent = { result: DELIVERED, headers: '{}' };
      return { ...common, sent, ended: 'delivered', pauseMs: 0 };
    }
    const result: SendResult = { ...DELIVERED, kind: 'failed', status: 500 };
    return { ...common, sent: { result, headers: '{}' }, ended: null, pauseMs: 60_000 };
  });
  const { stale } = await writeResults(pool, attemptResults, [], { offsetMs: 0 });
  expect(stale).toEqual([]);
  return due.length;
}

/** Blocks of the queue, the bodies and their indexes read so far, by any session. */
async function blocksRead(): Promise<number> {
  await pool.query('select pg_stat_force_next_flush()');
  const { rows } = await pool.query<{ blocks: number }>(
    `select sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::float8 as blocks
       from pg_statio_user_tables where relname = 'queue' or relname like 'payloads%'`,
  );
  return rows[0]?.blocks ?? Number.NaN;
}

describe('the work of sending and recording', () => {
  test.each([1, 3])('stays small when a queue of %i grows suddenly', async (before) => {
    const shopId = BigInt(before);
    await addShop(shopId);
    await db.pool.query('delete from queue');
    await addDeliveries(shopId, before);
    await migrator.query('vacuum analyze');
    // Warm up the plans.
    expect(await sendAndSettle(shopId, before)).toBe(before);
    await addDeliveries(shopId, 30_000);
    const from = await blocksRead();
    expect(await sendAndSettle(shopId, 8)).toBe(8);
    expect((await blocksRead()) - from).toBeLessThan(400);
  });
});
