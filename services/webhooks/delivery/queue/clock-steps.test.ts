import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { silentLogger } from '../../../../test/kit/services/telemetry.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { openSecondPool } from '../../../platform/postgres/postgres.ts';
import { insertDeliveries } from '../../fan-out/insert.ts';
import { DISPATCHER_POOL } from '../../start.ts';
import { createRetryClock } from '../attempt/retry-schedule.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { ActiveQueues } from '../scheduler/active-queues.ts';
import {
  createClockSteps,
  createDatabaseClock,
  markFreshReady,
  restartWaits,
} from './database-clock.ts';
import { readDue } from './read-due.ts';
import { unloadQueues } from './ready-queues.ts';

const HOUR_MS = 3_600_000;

/** Clock steps over a database that records its statements with their shards, and has no rows to correct. */
function newClockSteps() {
  const [statements, lines, steps]: [string[], unknown[], number[]] = [[], [], []];
  const active = new ActiveQueues();
  active.add({
    key: '1:1',
    shopId: 1n,
    subscriptionId: 1n,
    endpointId: 5n,
    endpointKey: '1:5',
    shard: 3,
    health: NEW_ENDPOINT,
  });
  const query = async ({ name, values }: pg.QueryConfig) => {
    statements.push(`${name} ${values?.[0]}`);
    return { rows: [{ count: 0 }] };
  };
  const clock = createRetryClock();
  const clockSteps = createClockSteps({
    pool: { query } as unknown as pg.Pool,
    logger: Object.assign(silentLogger(), { warn: (fields: unknown) => void lines.push(fields) }),
    clock,
    databaseClock: createDatabaseClock(),
    active,
    metrics: { clockStep: (stepMs) => void steps.push(Math.round(stepMs / HOUR_MS)) },
  });
  const note = (skewMs: number): void => {
    const at = performance.now();
    clockSteps.note({ startedMs: at, endedMs: at, databaseMs: at + skewMs });
  };
  return { clockSteps, clock, active, note, statements, lines, steps };
}

test('a step is logged and counted once, and every queue in memory is read from its start', () => {
  const { active, note, lines, steps } = newClockSteps();
  const [queue] = active.due();
  if (!queue) throw new Error('it was added');
  for (const skewMs of [0, 0, -HOUR_MS, -HOUR_MS, 0, 0]) {
    [queue.hasDueWork, queue.fullScanAtMs] = [false, performance.now()];
    const before = steps.length;
    note(skewMs);
    const isStep = steps.length > before;
    expect([queue.hasDueWork, queue.fullScanAtMs < 0]).toEqual([isStep, isStep]);
  }
  expect(steps).toEqual([-1, 1]);
  expect(lines).toEqual([{ seconds: -3_600 }, { seconds: 3_600 }]);
});

test('the retry clock is that of the database plus the offset', () => {
  const nowMs = performance.now();
  const stopped = jest.spyOn(performance, 'now').mockReturnValue(nowMs);
  const { clockSteps, clock, note } = newClockSteps();
  note(5 * HOUR_MS);
  clock.advance(3_600);
  const aheadMs = clockSteps.retryNowMs() - nowMs;
  stopped.mockRestore();
  expect(aheadMs).toBeCloseTo(6 * HOUR_MS);
});

test('corrections run regularly, after a step, and for new shards', async () => {
  const { clockSteps, note, statements } = newClockSteps();
  const correct = async (...shards: number[]): Promise<string[]> => {
    await clockSteps.correct(shards);
    return statements.splice(0);
  };
  note(0);
  expect(await correct(3)).toEqual(['mark-fresh-ready 3', 'restart-waits 3']);
  expect(await correct(3)).toEqual([]);
  expect(await correct(3, 4)).toEqual(['mark-fresh-ready 4']);
  note(-HOUR_MS);
  expect(await correct(3, 4)).toEqual(['mark-fresh-ready 3,4', 'restart-waits 3,4']);
  expect(await correct(4)).toEqual([]);
  expect(await correct(3, 4)).toEqual(['mark-fresh-ready 3']);
});

describe('clock set back', () => {
  const SECOND_MS = 1_000;
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
});

describe('clock set back delivery', () => {
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  beforeAll(async () => {
    webhooks = await runWebhooks();
    receiver = await startReceiver();
  });
  afterAll(async () => {
    await webhooks.stop();
    await receiver.stop();
  });

  /** As if the database's clock had been set back by a day: shifts every time of the shop's deliveries. */
  async function setBack(shopId: bigint): Promise<void> {
    const { pool } = webhooks.db;
    await pool.query(
      `update queue set next_attempt_at = next_attempt_at + interval '1 day', scheduled_at = scheduled_at + interval '1 day'
      where shop_id = $1`,
      [shopId],
    );
    await pool.query(
      `update subscription_queues set ready_at = ready_at + interval '1 day' where shop_id = $1`,
      [shopId],
    );
  }

  test("a retry waits as long as before although the database's clock was set back by a day", async () => {
    const shopId = newShop();
    receiver.answer = (response, _, nth) => void response.writeHead(nth === 1 ? 500 : 204).end();
    await webhooks.subscribe({ shopId, url: receiver.url });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
    await setBack(shopId);
    await until(async () => {
      const { rows } = await webhooks.db.pool.query(
        `select from queue where shop_id = $1 and next_attempt_at <= clock_timestamp() + interval '6 seconds'`,
        [shopId],
      );
      return rows.length === 1;
    });
    expect(receiver.received).toHaveLength(1);
    webhooks.advance(6);
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 2);
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(ids).toEqual([ids[0], ids[0]]);
  });

  test('a metric shows that the clock that signs requests is ten minutes ahead of the database', async () => {
    const now = Date.now;
    const ahead = jest.spyOn(Date, 'now').mockImplementation(() => now() + 600_000);
    const shown = /^webhooks_clock_difference\S* ([\d.]+)/m.exec(await webhooks.metrics());
    ahead.mockRestore();
    expect(Number(shown?.[1])).toBeGreaterThan(500);
  });
});

/** A slow reading of a clock that is ahead of the monotonic one by `skewMs`. */
function readingOf(skewMs: number, tookMs = 1) {
  const startedMs = performance.now();
  return { startedMs, endedMs: startedMs + tookMs, databaseMs: startedMs + tookMs / 2 + skewMs };
}

test('a slow response does not look like a step of the clock', () => {
  const clock = createDatabaseClock();
  const skewMs = 5_000_000;
  for (const [skew, tookMs] of [
    [skewMs, 8_000],
    // Within the uncertainty of the slow response.
    [skewMs, 1],
    [skewMs, 60_000],
    [skewMs + 500, 1],
  ] as const) {
    expect(clock.read(readingOf(skew, tookMs))).toBe(0);
  }
  expect(Math.abs(clock.read(readingOf(skewMs - HOUR_MS)) + HOUR_MS)).toBeLessThan(1_000);
  expect(Math.abs(clock.read(readingOf(skewMs)) - HOUR_MS)).toBeLessThan(1_000);
});

test('the clock follows each reading', () => {
  const nowMs = performance.now();
  const stopped = jest.spyOn(performance, 'now').mockReturnValue(nowMs);
  const clock = createDatabaseClock();
  const aheadMs = [5_000_000, 5_000_000 - HOUR_MS, 5_000_000].map((skewMs) => {
    clock.read(readingOf(skewMs));
    return [skewMs, clock.nowMs() - nowMs] as const;
  });
  stopped.mockRestore();
  for (const [skewMs, actualMs] of aheadMs) expect(Math.abs(actualMs - skewMs)).toBeLessThan(1);
});
