import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { silentLogger } from '../../../../test/kit/services/telemetry.ts';
import { until } from '../../../../test/kit/until.ts';
import { newSubscription } from '../../../../test/kit/webhooks/subscription.ts';
import { createShardHolder, type ShardHolder } from '../../../platform/shards.ts';
import { createRetryClock } from '../attempt/retry-clock.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { createHealthChanges } from '../endpoint/health-changes.ts';
import { ActiveQueues } from '../scheduler/active-queues.ts';
import { InFlightAttempts } from '../scheduler/in-flight.ts';
import { createDatabaseClock } from './database-clock.ts';
import { QueueLoader } from './queue-loader.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, queueKeyOf } from './queue-ref.ts';
import type { Due } from './read-due.ts';

let db: TestDatabase;
let shards: ShardHolder;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shards = createShardHolder({
    pool: db.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    // A long lease, so that a slow machine keeps the shards.
    leaseMs: 60_000,
  });
  await shards.rebalance();
});
afterEach(() => shards.release());

/** A queue and its endpoint, in a shop of its own. */
async function newQueue(path = '') {
  const shopId = newShop();
  const url = `https://partner.example/${path}`;
  return { shopId, subscriptionId: await newSubscription(db.pool, shopId, { url }) };
}

/** @param pool for its queries. */
function loaderOf(active: ActiveQueues, pool: pg.Pool, clockStep = (_stepMs: number) => {}) {
  return new QueueLoader({
    pool,
    logger: silentLogger(),
    metrics: { clockStep },
    active,
    shards,
    inFlight: new InFlightAttempts(),
    clock: createRetryClock(),
    databaseClock: createDatabaseClock(),
    healthChanges: createHealthChanges(),
    wakeLoop: { wake: () => {} },
  });
}

/** Queries like the pool; `between` runs before the second of the two statements that search for ready queues. */
function interrupted(between: () => Promise<unknown>): pg.Pool {
  const searches = ['find-ready-queues', 'find-next-ready'];
  let nth = 0;
  const query = async (statement: pg.QueryConfig) => {
    if (searches.includes(statement.name ?? '')) nth += 1;
    if (nth === 2) await between();
    return db.pool.query(statement);
  };
  return new Proxy(db.pool, {
    get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)),
  });
}

describe('a queue that moved to another endpoint', () => {
  test('is loaded with the new one, even without a notification', async () => {
    const queue = await newQueue();
    await db.pool.query('update subscription_queues set ready_at = now() where shop_id = $1', [
      queue.shopId,
    ]);
    const active = new ActiveQueues();
    const loader = loaderOf(active, db.pool);
    await loader.load();
    const before = active.queues.get(queueKeyOf(queue));
    expect(before).toBeDefined();
    const { rows } = await db.pool.query<{ id: bigint }>(
      `with moved as (
         insert into endpoints (shop_id, url, url_sha256)
         values ($1, 'https://other.example/', sha256('other')) returning id)
       update subscription_queues l set endpoint_id = m.id, shard = m.id % ${DELIVERY_SHARDS}
         from moved m where l.shop_id = $1 returning m.id`,
      [queue.shopId],
    );
    // The notification for a new connection.
    loader.notify({ keys: [], isChange: false });
    await loader.load();
    expect(active.queues.get(queueKeyOf(queue))?.endpointId).toBe(rows[0]?.id);
    expect(active.endpoints.health(before?.endpointKey ?? '')).toBeUndefined();
  });
});

test('committed deliveries of a lost shard are left to its new owner', () => {
  const active = new ActiveQueues();
  const loader = loaderOf(active, db.pool);
  const ids = { shopId: 1n, subscriptionId: 1n, endpointId: 1n, endpointKey: '1:1' };
  const target = {
    ...ids,
    key: '1:1',
    health: NEW_ENDPOINT,
    wasEmpty: true,
    foundAtMs: 0,
    url: 'https://example.com/',
    encryptedSecrets: null,
    isSandbox: false,
    isFailing: false,
  };
  const deliveries = [{ ...ids, id: 'a', bytes: 1 } as Partial<Due> as Due];
  loader.addFresh([{ target: { ...target, shard: DELIVERY_SHARDS }, deliveries }]);
  expect(active.queues.size).toBe(0);
  loader.addFresh([{ target: { ...target, shard: 1 }, deliveries }]);
  expect(active.queues.size).toBe(1);
});

describe('a queue that becomes ready', () => {
  test('is loaded when another replica sends a notification, before the next search', async () => {
    const queue = await newQueue();
    const active = new ActiveQueues();
    const loader = loaderOf(active, db.pool);
    await loader.load();
    await db.pool.query('update subscription_queues set ready_at = now() where shop_id = $1', [
      queue.shopId,
    ]);
    loader.notify({ keys: [queueKeyOf(queue)], isChange: false });
    await loader.load();
    expect(active.queues.has(queueKeyOf(queue))).toBe(true);
  });

  test('between two searches is found immediately', async () => {
    const queue = await newQueue();
    await db.pool.query(
      `update subscription_queues set ready_at = clock_timestamp() + interval '150 milliseconds' where shop_id = $1`,
      [queue.shopId],
    );
    const active = new ActiveQueues();
    const isReady = async () => {
      const { rows } = await db.pool.query<{ isReady: boolean }>(
        'select ready_at < clock_timestamp() as "isReady" from subscription_queues where shop_id = $1',
        [queue.shopId],
      );
      return rows[0]?.isReady;
    };
    const loader = loaderOf(
      active,
      interrupted(() => until(isReady)),
    );
    await loader.load();
    expect(active.queues.has(queueKeyOf(queue))).toBe(true);
  });
});

describe('when the database clock is set', () => {
  test('back: the next scan corrects a retry that waited before, whether the step was noticed or not', async () => {
    const queue = await newQueue();
    await addWaiting(queue, { isRetry: true });
    await loaderOf(new ActiveQueues(), db.pool).load();
    const { rows } = await db.pool.query<{ isSoon: boolean }>(
      `select next_attempt_at < clock_timestamp() + interval '6 seconds' as "isSoon" from queue where shop_id = $1`,
      [queue.shopId],
    );
    expect(rows).toEqual([{ isSoon: true }]);
  });

  test('back: the queue of an earlier fresh delivery is found by a process that gets its shard', async () => {
    const active = new ActiveQueues();
    const queue = await newQueue();
    await addWaiting(queue, { isRetry: false });
    await loaderOf(active, db.pool).load();
    expect(active.queues.has(queueKeyOf(queue))).toBe(true);
  });

  test('the step is counted', async () => {
    const steps: number[] = [];
    let aheadMs = 0;
    const query = async (statement: pg.QueryConfig) => {
      const result = await db.pool.query(statement);
      if (statement.name !== 'find-next-ready') return result;
      return { rows: result.rows.map((row) => ({ ...row, nowMs: row.nowMs + aheadMs })) };
    };
    const pool = { query } as unknown as pg.Pool;
    const loader = loaderOf(new ActiveQueues(), pool, (stepMs) => steps.push(Math.sign(stepMs)));
    for (aheadMs of [0, 0, -3_600_000, -3_600_000, 0]) {
      // As with a new connection for notifications: it scans.
      loader.notify({ keys: [], isChange: false });
      await loader.load();
    }
    expect(steps).toEqual([-1, 1]);
  });
});

/** A delivery that was queued, or started to wait for 5 s, before the clock was set back by an hour. */
async function addWaiting(
  queue: { shopId: bigint; subscriptionId: bigint },
  { isRetry }: { isRetry: boolean },
): Promise<void> {
  await db.pool.query(
    `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at, scheduled_at)
     values ($1, $2, gen_random_uuid(), gen_random_uuid(), 2, $3, now() + interval '1 hour 5 seconds', now(),
             case when $3 then now() + interval '1 hour' end)`,
    [queue.shopId, queue.subscriptionId, isRetry],
  );
  await db.pool.query(
    `update subscription_queues set ready_at = now() + interval '1 hour' where shop_id = $1`,
    [queue.shopId],
  );
}
