import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { openSecondPool, type Queryable } from '../../../platform/postgres.ts';
import { DISPATCHER_POOL } from '../../start.ts';
import { restartWaits } from './clock-set-back.ts';
import { readDue } from './read-due.ts';
import { findNextReady, findReadyQueues } from './ready-queues.ts';

let db: TestDatabase;
let migrator: pg.Client;
/** One connection, so that only its reads are counted. */
let pool: pg.Pool;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  migrator = new pg.Client({ connectionString: db.migratorUrl });
  await migrator.connect();
  // Its reads would be counted too.
  await migrator.query('alter table webhooks.queue set (autovacuum_enabled = off)');
  await migrator.query('alter table webhooks.subscription_queues set (autovacuum_enabled = off)');
  pool = openSecondPool(db.pool, { ...DISPATCHER_POOL, max: 1 });
});
afterAll(async () => {
  await pool.end();
  await migrator.end();
  await db.drop();
});

/** Endpoints of one shop, with one queue each. */
async function addQueues(shopId: bigint, count: number, readyAt: string): Promise<bigint[]> {
  const { rows } = await db.pool.query<{ id: bigint }>(
    `with e as (
       insert into endpoints (shop_id, url, url_sha256)
       select $1, 'https://a.example/' || n, sha256(n::text::bytea) from generate_series(1, $2) n returning id
     ), s as (
       insert into subscriptions (shop_id, topic, trigger, endpoint_id, status)
       select $1, 'return', 'return.closed', e.id, 'active' from e returning id, endpoint_id
     )
     select * from s`,
    [shopId, count],
  );
  await db.pool.query(
    `insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open, ready_at)
     select shop_id, id, endpoint_id, topic, trigger, endpoint_id % 32, true, ${readyAt}
       from subscriptions where shop_id = $1`,
    [shopId],
  );
  return rows.map((row) => row.id);
}

/** Deliveries of a queue that are due now, or in an hour. */
async function addDeliveries(
  o: { shopId: bigint; subscriptionId: bigint; isRetry?: boolean },
  count: number,
  at = 'now()',
): Promise<void> {
  await db.pool.query(
    `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
     select $1, $2, gen_random_uuid(), $3, 100, $4, ${at} - n * interval '1 ms', now(), case when $4 then now() end
       from generate_series(1, $5) n`,
    [o.shopId, o.subscriptionId, randomUUID(), o.isRetry ?? false, count],
  );
}

/** Blocks of a table and its indexes read so far, by any session. */
async function blocksRead(one: Queryable): Promise<number> {
  await one.query('select pg_stat_force_next_flush()');
  const { rows } = await one.query<{ blocks: number }>(
    `select sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::float8 as blocks
       from pg_statio_user_tables where relname in ('queue', 'subscription_queues', 'endpoints', 'subscriptions')`,
  );
  return rows[0]?.blocks ?? Number.NaN;
}

async function blocksOf(work: () => Promise<unknown>): Promise<number> {
  await migrator.query(
    'vacuum analyze webhooks.queue, webhooks.subscription_queues, webhooks.endpoints, webhooks.subscriptions',
  );
  // Warm up plans and catalogs.
  await work();
  const before = await blocksRead(pool);
  await work();
  return (await blocksRead(pool)) - before;
}

const READING = {
  limit: 8,
  mode: 'all',
  healthClass: 'trusted',
  freshFromMs: 0,
  retriesFromMs: 0,
} as const;

describe('the work of a claim', () => {
  test('does not grow with the backlog of a queue, due or not', async () => {
    const [subscriptionId = 0n] = await addQueues(1n, 1, 'now()');
    const { rows } = await db.pool.query<{ endpointId: bigint }>(
      'select endpoint_id as "endpointId" from subscription_queues where shop_id = 1',
    );
    const endpointId = rows[0]?.endpointId ?? 0n;
    const queue = { shopId: 1n, subscriptionId, endpointId };
    const read = async (): Promise<void> => {
      const due = await readDue(pool, [{ ...queue, ...READING }], {
        except: [],
        maxBytes: { trusted: 1e9, new: 0, slow: 0, failing: 0 },
        offsetMs: 0,
      });
      expect(due).toHaveLength(8);
    };
    await addDeliveries(queue, 1_000);
    const few = await blocksOf(read);
    await addDeliveries(queue, 99_000);
    const many = await blocksOf(read);
    await addDeliveries({ ...queue, isRetry: true }, 50_000, `now() + interval '1 hour'`);
    const withRetries = await blocksOf(read);
    expect(few).toBeGreaterThan(0);
    expect(many).toBeLessThanOrEqual(1.3 * few);
    expect(withRetries).toBeLessThanOrEqual(1.3 * few);
  });

  test('does not grow with the number of endpoints that are down', async () => {
    const shards = Array.from({ length: 32 }, (_, shard) => shard);
    await addQueues(2n, 64, 'now()');
    const find = async (): Promise<void> => {
      const found = await findReadyQueues(pool, { shards, except: [], limit: 20, offsetMs: 0 });
      expect(found).toHaveLength(20);
      await findNextReady(pool, { shards, offsetMs: 0 });
    };
    await addQueues(3n, 1_000, `now() + interval '10 minutes'`);
    const few = await blocksOf(find);
    await addQueues(4n, 10_000, `now() + interval '10 minutes'`);
    const many = await blocksOf(find);
    expect(many).toBeLessThanOrEqual(1.3 * few);
  });

  test('of a search for waits that started in the future does not grow with other waits', async () => {
    const shards = Array.from({ length: 32 }, (_, shard) => shard);
    const search = () => restartWaits(pool, { shards, offsetMs: 0 });
    const few = await blocksOf(search);
    for (const id of await addQueues(5n, 300, `now() + interval '1 hour'`)) {
      await addDeliveries({ shopId: 5n, subscriptionId: id, isRetry: true }, 100);
    }
    // One more level of the index.
    expect(await blocksOf(search)).toBeLessThan(few + 5);
  });
});
