import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { silentLogger } from '../../../../test/kit/services/telemetry.ts';
import { until } from '../../../../test/kit/until.ts';
import { newSubscription } from '../../../../test/kit/webhooks/subscription.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { createShardHolder, type ShardHolder } from '../../../platform/leases/shards.ts';
import {
  inTransaction,
  openSecondPool,
  type Queryable,
} from '../../../platform/postgres/postgres.ts';
import { deliveriesOf, fanOut, lockQueues } from '../../fan-out/fan-out.ts';
import { DISPATCHER_POOL } from '../../start.ts';
import { createRetryClock } from '../attempt/retry-schedule.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { createHealthChanges } from '../endpoint/health-changes.ts';
import { ActiveQueues } from '../scheduler/active-queues.ts';
import { InFlightAttempts } from '../scheduler/in-flight.ts';
import { createDatabaseClock, restartWaits } from './database-clock.ts';
import { QueueLoader } from './queue-loader.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, queueKeyOf } from './queue-ref.ts';
import { type Due, readDue } from './read-due.ts';
import { findNextReady, findReadyQueues, unloadQueues } from './ready-queues.ts';

describe('queues in the table', () => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await createTestDatabase('webhooks');
  });
  afterAll(() => db.drop());

  describe('queue loader', () => {
    let shards: ShardHolder;
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
        const loader = loaderOf(new ActiveQueues(), pool, (stepMs) =>
          steps.push(Math.sign(stepMs)),
        );
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
  });

  describe('ready queues', () => {
    const TODAY = new Date('2026-11-21T00:00:00Z');

    /** An empty queue. */
    async function newQueue() {
      const shopId = newShop();
      const queue = { shopId, subscriptionId: await newSubscription(db.pool, shopId) };
      const { rows } = await db.pool.query<{ endpointId: bigint }>(
        'select endpoint_id as "endpointId" from subscription_queues where shop_id = $1',
        [shopId],
      );
      const endpointId = rows[0]?.endpointId ?? 0n;
      return {
        queue,
        add: () =>
          inTransaction(db.pool, async (tx) => {
            const events = [sampleEvent('return.closed', shopId)];
            const queues = await lockQueues(tx, events);
            await fanOut(tx, deliveriesOf(events, queues, TODAY), { offsetMs: 0 });
          }),
        unload: (pausedUntilMs: number | null = null) =>
          unloadQueues(db.pool, [{ ...queue, endpointId, pausedUntilMs }]),
        /** Whether deliveries wait, and whether the queue is ready. */
        async state() {
          const { rows: found } = await db.pool.query<{ waits: boolean; isReady: boolean }>(
            `select exists (select from queue q where q.shop_id = l.shop_id) as waits,
                coalesce(l.ready_at <= now(), false) as "isReady"
           from subscription_queues l where l.shop_id = $1`,
            [shopId],
          );
          return found[0];
        },
        empty: () => db.pool.query('delete from queue where shop_id = $1', [shopId]),
      };
    }

    describe('fan-out and unloading at the same time', () => {
      test('in either order, no delivery waits in a queue without a ready time', async () => {
        const queue = await newQueue();
        for (let round = 0; round < 150; round += 1) {
          const both = round % 2 ? [queue.add(), queue.unload()] : [queue.unload(), queue.add()];
          await Promise.all(both);
          expect(await queue.state()).toEqual({ waits: true, isReady: true });
          await queue.empty();
          await queue.unload();
          expect(await queue.state()).toEqual({ waits: false, isReady: false });
        }
      });

      test('also when several add and several unload', async () => {
        const queue = await newQueue();
        for (let round = 0; round < 30; round += 1) {
          await Promise.all([
            queue.add(),
            queue.unload(),
            queue.add(),
            queue.unload(),
            queue.add(),
          ]);
          expect(await queue.state()).toEqual({ waits: true, isReady: true });
          await queue.empty();
          await queue.unload();
        }
      });
    });

    describe('a queue that is unloaded', () => {
      test('does not change while another transaction is writing it', async () => {
        const { queue, add, unload, state } = await newQueue();
        await inTransaction(db.pool, async (tx) => {
          await tx.query('select from subscription_queues where shop_id = $1 for no key update', [
            queue.shopId,
          ]);
          expect((await unload()).size).toBe(0);
        });
        await add();
        expect(await state()).toEqual({ waits: true, isReady: true });
      });

      test('is ready when its first delivery is due', async () => {
        const { queue, add, unload } = await newQueue();
        expect([...(await unload()).values()]).toEqual([null]);
        await add();
        await add();
        await db.pool.query(
          `update queue set is_retry = true, next_attempt_at = now() + interval '1 hour' where shop_id = $1`,
          [queue.shopId],
        );
        const [readyMs] = (await unload()).values();
        expect(Math.abs((readyMs ?? 0) - Date.now() - 3_600_000)).toBeLessThan(60_000);
      });

      test('is ready for a probe while its circuit is open, or when its oldest delivery is due', async () => {
        const { queue, add, unload } = await newQueue();
        await add();
        await add();
        const held = Date.now() + 3_600_000;
        // The oldest is due immediately.
        expect([...(await unload(held)).values()][0]).toBeLessThan(Date.now() + 60_000);
        await db.pool.query(
          `update queue set is_retry = true, next_attempt_at = now() + interval '30 minutes'
        where shop_id = $1 and id = (select min(id::text)::uuid from queue where shop_id = $1)`,
          [queue.shopId],
        );
        const [half] = (await unload(held)).values();
        expect(Math.abs((half ?? 0) - Date.now() - 1_800_000)).toBeLessThan(60_000);
        await db.pool.query(
          `update queue set next_attempt_at = now() + interval '3 hours' where shop_id = $1 and is_retry`,
          [queue.shopId],
        );
        const [whole] = (await unload(held)).values();
        expect(Math.abs((whole ?? 0) - held)).toBeLessThan(1_000);
      });
    });
  });
});

describe('the work of a claim', () => {
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
