import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { openSecondPool } from '../../../platform/postgres.ts';
import { insertDeliveries } from '../../fan-out/insert.ts';
import { DISPATCHER_POOL } from '../../start.ts';
import { markFreshReady, restartWaits } from './clock-set-back.ts';
import { readDue } from './read-due.ts';
import { unloadQueues } from './ready-queues.ts';

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const NO_LIMIT = { trusted: 1e9, new: 1e9, slow: 1e9, failing: 1e9 };
/** The shard of shop 1. Shop 2 has the next shard. */
const SHARD = 3;
const HELD = { shards: [SHARD], offsetMs: 0 };

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  await db.pool.query(
    `with e as (
       insert into endpoints (shop_id, id, url, url_sha256) overriding system value
       select n, 1, 'https://a.example/', sha256('a') from generate_series(1, 2) as n
     ), s as (
       insert into subscriptions (shop_id, id, topic, trigger, endpoint_id, status) overriding system value
       select n, 1, 'return', 'return.closed', 1, 'active' from generate_series(1, 2) as n
     )
     insert into subscription_queues (shop_id, subscription_id, endpoint_id, topic, trigger, shard, is_open)
     select n, 1, 1, 'return', 'return.closed', $1::smallint + n - 1, true
       from generate_series(1, 2) as n`,
    [SHARD],
  );
});
afterAll(() => db.drop());
beforeEach(async () => {
  await db.pool.query('delete from queue');
  await db.pool.query(`update subscription_queues set ready_at = now() + interval '1 hour'`);
});

interface Waiting {
  readonly shopId?: number;
  /** Start of the wait, from now; none for a fresh delivery. Milliseconds. */
  readonly sinceMs?: number;
  /** Due time, from now. Milliseconds. */
  readonly dueMs: number;
}

async function add({ shopId = 1, sinceMs, dueMs }: Waiting): Promise<void> {
  await db.pool.query(
    `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
     values ($1, 1, gen_random_uuid(), gen_random_uuid(), 2, $2::float8 is not null, now() + $3 * interval '1 ms', now(),
             now() + $2 * interval '1 ms')`,
    [shopId, sinceMs ?? null, dueMs],
  );
}

/** How much longer each delivery of a shop waits, in seconds. */
async function waitsOf(shopId: number): Promise<number[]> {
  const { rows } = await db.pool.query<{ s: number }>(
    `select extract(epoch from next_attempt_at - clock_timestamp())::float8 as s from queue
      where shop_id = $1 order by 1`,
    [shopId],
  );
  return rows.map(({ s }) => Math.ceil(s));
}

async function readyShops(): Promise<bigint[]> {
  const { rows } = await db.pool.query<{ id: bigint }>(
    'select shop_id as id from subscription_queues where ready_at <= clock_timestamp() order by 1',
  );
  return rows.map(({ id }) => id);
}

/** Asserts that a wait has the promised length, even if the test stood still for up to ten minutes. */
function expectWait(actual: number | undefined, seconds: number): void {
  expect(actual).toBeLessThanOrEqual(seconds);
  expect(actual).toBeGreaterThan(seconds - 600);
}

describe('retries whose wait started before the clock was set back', () => {
  test('wait for their whole pause from now, and their queue is marked ready', async () => {
    await add({ sinceMs: HOUR_MS - 10 * SECOND_MS, dueMs: HOUR_MS + 1_790 * SECOND_MS });
    expect(await restartWaits(db.pool, HELD)).toBe(false);
    const [wait] = await waitsOf(1);
    expectWait(wait, 1_800);
    expect(await readyShops()).toEqual([1n]);
  });

  test('are corrected once, however often the correction runs', async () => {
    await add({ sinceMs: HOUR_MS, dueMs: HOUR_MS + 30 * SECOND_MS });
    await restartWaits(db.pool, HELD);
    const rows = async () => (await db.pool.query('select * from queue')).rows;
    const before = await rows();
    for (let nth = 0; nth < 3; nth += 1) await restartWaits(db.pool, HELD);
    expect(await rows()).toEqual(before);
  });

  test('are not changed in shards of other processes', async () => {
    await add({ shopId: 2, sinceMs: HOUR_MS, dueMs: HOUR_MS + 30 * SECOND_MS });
    await restartWaits(db.pool, HELD);
    expectWait((await waitsOf(2))[0], 3_630);
    expect(await readyShops()).toEqual([]);
  });

  test('are skipped while another transaction is writing them', async () => {
    await add({ sinceMs: HOUR_MS, dueMs: HOUR_MS + 30 * SECOND_MS });
    const other = await db.pool.connect();
    try {
      await other.query('begin');
      await other.query('select from queue for update');
      await restartWaits(db.pool, HELD);
      await other.query('rollback');
    } finally {
      other.release();
    }
    expectWait((await waitsOf(1))[0], 3_630);
    await restartWaits(db.pool, HELD);
    expectWait((await waitsOf(1))[0], 30);
  });
});

test('retries whose wait started in the past keep their time, however long they wait', async () => {
  await add({ sinceMs: -HOUR_MS, dueMs: 23 * HOUR_MS });
  await restartWaits(db.pool, HELD);
  expectWait((await waitsOf(1))[0], 23 * 3_600);
  expect(await readyShops()).toEqual([]);
});

test('an offset of the retry clock counts as passed time', async () => {
  await add({ sinceMs: HOUR_MS, dueMs: HOUR_MS + 30 * SECOND_MS });
  await restartWaits(db.pool, { ...HELD, offsetMs: HOUR_MS });
  expectWait((await waitsOf(1))[0], 3_630);
});

describe('a fresh delivery that was queued before the clock was set back', () => {
  test('gets its queue marked ready, even when that is unloaded', async () => {
    await add({ dueMs: HOUR_MS });
    await add({ shopId: 2, dueMs: HOUR_MS });
    await markFreshReady(db.pool, HELD);
    expect(await readyShops()).toEqual([1n]);
    const unloading = { shopId: 1n, subscriptionId: 1n, endpointId: 1n, pausedUntilMs: null };
    await unloadQueues(db.pool, [unloading]);
    expect(await readyShops()).toEqual([1n]);
  });

  test('does not affect queues that contain only retries', async () => {
    await add({ sinceMs: -HOUR_MS, dueMs: HOUR_MS });
    await markFreshReady(db.pool, HELD);
    expect(await readyShops()).toEqual([]);
  });

  test.each(['all', 'any-probe', 'oldest-probe'] as const)('is due (%s)', async (mode) => {
    await add({ dueMs: HOUR_MS });
    const due = await readDue(
      db.pool,
      [
        {
          shopId: 1n,
          subscriptionId: 1n,
          endpointId: 1n,
          limit: 1,
          mode,
          healthClass: 'trusted',
          freshFromMs: 0,
          retriesFromMs: 0,
        },
      ],
      { except: [], maxBytes: NO_LIMIT, offsetMs: 0 },
    );
    expect(due).toHaveLength(1);
  });
});

test.each([
  { isRetry: false, scheduled: null },
  { isRetry: true, scheduled: true },
])('a delivery queued behind fresh ones stores the start of its wait: %j', async (o) => {
  const event = sampleEvent('return.closed', 1n);
  const delivery = {
    event,
    subscriptionId: 1n,
    topic: 'return',
    version: '2026-10',
    isTest: false,
  };
  await insertDeliveries(db.pool, [{ ...delivery, body: Buffer.from('{}') }], {
    offsetMs: 0,
    isRetry: o.isRetry,
  });
  const { rows } = await db.pool.query(
    'select is_retry as "isRetry", scheduled_at = next_attempt_at as scheduled from queue',
  );
  expect(rows).toEqual([o]);
});

test('affected rows are found by their index, whatever the statistics are', async () => {
  await db.pool.query(
    `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
     select 1, n, gen_random_uuid(), gen_random_uuid(), 2, true, now(), now(), now() from generate_series(1, 1000) n`,
  );
  const pool = openSecondPool(db.pool, { ...DISPATCHER_POOL, max: 1 });
  try {
    await restartWaits(pool, HELD);
    const { rows } = await pool.query<{ 'QUERY PLAN': string }>(
      `explain execute "restart-waits" ('{3}', 0)`,
    );
    const plan = rows.map((row) => row['QUERY PLAN']).join();
    expect(plan).toContain('using queue_scheduled');
    expect(plan).not.toMatch(/queue_pkey|queue_due/);
  } finally {
    await pool.end();
  }
});
