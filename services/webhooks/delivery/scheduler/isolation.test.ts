import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals';
import pg from 'pg';
import { DeliveryState } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import type { ShardHolder } from '../../../platform/leases/shards.ts';
import { inTransaction } from '../../../platform/postgres/postgres.ts';
import { type EndpointHealth, NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { endBacklog } from '../queue/end-waiting.ts';
import type { Due } from '../queue/read-due.ts';
import type { Target } from '../queue/targets.ts';
import { markDue } from './active-queue.ts';
import { ActiveQueues, MAX_ACTIVE_QUEUES } from './active-queues.ts';
import { InFlightAttempts } from './in-flight.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';

describe('isolation', () => {
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  beforeAll(async () => {
    webhooks = await runWebhooks({ WEBHOOK_CONCURRENCY: 4 });
  });
  afterAll(() => webhooks.stop());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  const events = (shopId: bigint, count: number) =>
    Array.from({ length: count }, () => sampleEvent('return.closed', shopId));

  async function asMigrator(work: (migrator: pg.Client) => Promise<void>): Promise<void> {
    const migrator = new pg.Client({ connectionString: webhooks.db.migratorUrl });
    await migrator.connect();
    await work(migrator).finally(() => migrator.end());
  }

  /** The metric, in seconds. */
  async function oldestResultS(): Promise<number> {
    const page = await webhooks.metrics();
    return Number(/^webhooks_results_oldest_age\S* (\S+)/m.exec(page)?.[1] ?? Number.NaN);
  }

  const arrivedAt = (path: string): number =>
    receiver.received.filter((one) => one.path === path).length;

  describe('the failure of one delivery', () => {
    test('delays no other delivery: a secret whose key is not on the ring', async () => {
      const [bad, good] = [newShop(), newShop()];
      await webhooks.subscribe({ shopId: bad, url: `${receiver.url}/bad` });
      await webhooks.subscribe({ shopId: good, url: `${receiver.url}/good` });
      await webhooks.db.pool.query(`update secrets set key_id = 'lost' where shop_id = $1`, [bad]);
      await webhooks.publish(...events(bad, 40));
      await webhooks.publish(...events(good, 40));
      await until(() => arrivedAt('/hook/good') === 40);
      expect(arrivedAt('/hook/bad')).toBe(0);
      await until(async () =>
        /^webhooks_deliveries_rescheduled\S* \d/m.test(await webhooks.metrics()),
      );
    });

    test('does not repeat it again and again: a response that cannot be recorded', async () => {
      const shopId = newShop();
      await asMigrator(async (migrator) => {
        await migrator.query(
          `alter table webhooks.attempts add constraint no_poison check (response_excerpt <> 'poison')`,
        );
        try {
          receiver.answer = (response) => void response.writeHead(500).end('poison');
          await webhooks.subscribe({ shopId, url: receiver.url });
          await webhooks.publish(...events(shopId, 1));
          const first = await until(
            async () => (await webhooks.deliveries(shopId))[0]?.attempts[0],
          );
          expect(first).toMatchObject({ status: 500, responseExcerpt: '' });
          expect(receiver.received).toHaveLength(1);
          const { rows } = await webhooks.db.pool.query(
            'select consecutive_failures as failures from endpoints where shop_id = $1',
            [shopId],
          );
          expect(rows).toEqual([{ failures: 1 }]);
        } finally {
          await migrator.query('alter table webhooks.attempts drop constraint no_poison');
        }
      });
    });
  });

  describe('results that the database rejects', () => {
    test.each([
      [
        'because of a lost grant',
        'revoke insert on webhooks.attempts from rms_webhooks',
        'grant insert on webhooks.attempts to rms_webhooks',
      ],
      [
        'in every form',
        `alter table webhooks.deliveries add constraint no_end check (ended <> 'delivered') not valid`,
        'alter table webhooks.deliveries drop constraint no_end',
      ],
    ])('%s are kept, and are recorded later', async (form, refuse, allow) => {
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      await asMigrator(async (migrator) => {
        await migrator.query(refuse);
        try {
          await webhooks.publish(...events(shopId, 3));
          await until(() => arrivedAt('/hook') === 3);
          // Longer than the first pauses: without the fix they would have been sent again.
          await until(async () => (await oldestResultS()) > 2);
        } finally {
          await migrator.query(allow);
        }
      });
      await until(async () =>
        (await webhooks.deliveries(shopId)).every(({ state }) => state === DeliveryState.DELIVERED),
      );
      expect(arrivedAt('/hook')).toBe(3);
      const deliveries = await webhooks.deliveries(shopId);
      // A rejection that ends between two forms of a result leaves the form without its attempt.
      const logged = deliveries.map(({ attempts }) => attempts.length);
      expect(logged).toEqual(
        form === 'for a lost grant' ? [1, 1, 1] : logged.map((n) => Math.min(n, 1)),
      );
      await until(async () => (await oldestResultS()) === 0);
    });
  });

  describe('a transaction that locks a queue for long', () => {
    test('delays no other queue', async () => {
      const [held, other] = [newShop(), newShop()];
      await webhooks.subscribe({ shopId: held, url: `${receiver.url}/held` });
      await webhooks.subscribe({ shopId: other, url: `${receiver.url}/other` });
      await webhooks.publish(...events(held, 1));
      await until(() => arrivedAt('/hook/held') === 1);
      await inTransaction(webhooks.db.pool, async (tx) => {
        await tx.query('select from subscription_queues where shop_id = $1 for no key update', [
          held,
        ]);
        // Continue for longer than an idle queue stays loaded.
        const end = performance.now() + 3_000;
        for (let sent = 1; performance.now() < end; sent += 1) {
          await webhooks.publish(...events(other, 1));
          await until(() => arrivedAt('/hook/other') === sent);
        }
      });
      await webhooks.publish(...events(held, 1));
      await until(() => arrivedAt('/hook/held') === 2);
    });
  });

  describe('a transaction that locks a subscription for long', () => {
    test('delays results of no other subscription, and those of this one only until it ends', async () => {
      const [held, other] = [newShop(), newShop()];
      receiver.answer = (response, { path }) =>
        void response.writeHead(path.endsWith('held') ? 500 : 200).end();
      await webhooks.subscribe({ shopId: held, url: `${receiver.url}/held` });
      await webhooks.subscribe({ shopId: other, url: `${receiver.url}/other` });
      const attemptsOf = async (shopId: bigint) =>
        (await webhooks.deliveries(shopId)).filter(({ attempts }) => attempts.length > 0).length;
      await inTransaction(webhooks.db.pool, async (tx) => {
        await tx.query('select from subscriptions where shop_id = $1 for update', [held]);
        await webhooks.publish(...events(held, 2));
        await until(() => arrivedAt('/hook/held') === 2);
        await webhooks.publish(...events(other, 40));
        // The subscription of the shop `held` is still locked.
        await until(async () => (await attemptsOf(other)) === 40);
        expect(await attemptsOf(held)).toBe(0);
      });
      await until(async () => (await attemptsOf(held)) === 2);
      expect(arrivedAt('/hook/held')).toBe(2);
    });
  });

  describe('the backlog of a deleted subscription', () => {
    test('ends completely, even while results are being recorded', async () => {
      const shopId = newShop();
      receiver.answer = (response) => void response.writeHead(500).end();
      const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
      await webhooks.publish(...events(shopId, 2));
      const { pool } = webhooks.db;
      const of = [shopId, id];
      await until(async () => {
        const { rowCount } = await pool.query(
          'select from queue where shop_id = $1 and subscription_id = $2 and attempts > 0',
          of,
        );
        return rowCount === 2;
      });
      await inTransaction(pool, async (tx) => {
        await tx.query(
          `select from queue where shop_id = $1 and subscription_id = $2 limit 1 for update`,
          of,
        );
        await pool.query(
          'update subscription_queues set is_open = false, is_deleted = true, ready_at = null where shop_id = $1 and subscription_id = $2',
          of,
        );
        await endBacklog(pool, 0);
      });
      await endBacklog(pool, 0);
      const { rowCount } = await pool.query(
        'select from queue where shop_id = $1 and subscription_id = $2',
        of,
      );
      expect(rowCount).toBe(0);
    });
  });
});

describe('fresh deliveries', () => {
  const KEY = '1:1';
  const ids = { shopId: 1n, subscriptionId: 1n, endpointId: 1n, endpointKey: '1:1', shard: 1 };
  const target: Target = {
    ...ids,
    key: KEY,
    health: NEW_ENDPOINT,
    url: 'https://example.com/',
    encryptedSecrets: null,
    isSandbox: false,
    isFailing: false,
    wasEmpty: true,
    foundAtMs: 0,
  };

  /** Only this part is used. */
  const fresh = (id: string, bytes = 1): Due =>
    ({ ...ids, id, bytes, isRetry: false }) as Partial<Due> as Due;

  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  /** A scheduler whose reads are empty. Records the started deliveries and the queues that were read. */
  function scheduling(o: Partial<SchedulerOptions> = {}) {
    const active = new ActiveQueues();
    const started: string[] = [];
    let readings = 0;
    const query = async () => {
      readings += 1;
      return { rows: [] };
    };
    const scheduler = new Scheduler({
      active,
      pool: { query } as unknown as pg.Pool,
      inFlight: new InFlightAttempts(),
      shards: { tokenOf: () => 1n } as Partial<ShardHolder> as ShardHolder,
      attempts: { start: (due) => void started.push(due.id), isShortOfSockets: () => false },
      holds: { waitMs: () => 0 },
      loader: { postpone: async () => {} },
      wakeLoop: { wake: () => {} },
      concurrency: 8,
      offsetMs: () => 0,
      retryNowMs: () => Date.now(),
      shopBytes: { take: () => true, waitMs: () => 0, throttled: () => 0 },
      ...o,
    });
    return { active, started, readings: () => readings, sendDue: () => scheduler.sendDue() };
  }

  describe('deliveries that were just committed', () => {
    test('are sent without a read, as many at a time as their endpoint allows', async () => {
      const { active, started, readings, sendDue } = scheduling();
      expect(active.addFresh(target, [fresh('a'), fresh('b'), fresh('c')])).toBe(true);
      await sendDue();
      expect(started).toEqual(['a', 'b']);
      await sendDue();
      expect(started).toEqual(['a', 'b', 'c']);
      expect(readings()).toBe(0);
      expect(active.due()).toEqual([]);
    });

    test('are left to the table while their queue has other work to read', async () => {
      const { active, started, readings, sendDue } = scheduling();
      active.addFresh(target, [fresh('a')]);
      for (const queue of active.queues.values()) markDue(queue);
      expect(active.addFresh(target, [fresh('b')])).toBe(false);
      await sendDue();
      expect({ started, readings: readings() }).toEqual({ started: [], readings: 1 });
      expect(active.due()).toEqual([]);
    });

    test('are read when they could not start for a while, because their address or body may have changed', async () => {
      const { active, started, readings, sendDue } = scheduling();
      active.addFresh(target, [fresh('a')]);
      jest.advanceTimersByTime(1_000);
      await sendDue();
      expect({ started, readings: readings() }).toEqual({ started: [], readings: 1 });
    });

    test('are read when the circuit of their endpoint is open', async () => {
      const circuit = { openedAtMs: 0, pausedUntilMs: Number.POSITIVE_INFINITY };
      const health: EndpointHealth = { ...NEW_ENDPOINT, failures: 10, circuit };
      const { active, started, readings, sendDue } = scheduling();
      active.addFresh({ ...target, health }, [fresh('a')]);
      await sendDue();
      expect({ started, readings: readings() }).toEqual({ started: [], readings: 1 });
    });

    test('wait in the table while their shop is throttled', async () => {
      const shopBytes = { take: () => false, waitMs: () => 0, throttled: () => 0 };
      const { active, started, sendDue } = scheduling({ shopBytes });
      active.addFresh(target, [fresh('a')]);
      await sendDue();
      expect(started).toEqual([]);
      expect(active.queues.get(KEY)).toMatchObject({ hasDueWork: true, fresh: [] });
    });
  });

  describe('a delivery that a read has seen before its commit was known here', () => {
    const found = (foundAtMs: number): Target => ({ ...target, foundAtMs });

    test.each([
      ['ended after the queue was found', 1, false],
      ['ended before the queue was found', 2, true],
    ])('is not sent again: the read %s', async (_, foundAtMs, isAccepted) => {
      jest.advanceTimersByTime(1);
      const { active, started, sendDue } = scheduling();
      active.addFresh(found(0.5), []);
      for (const queue of active.queues.values()) markDue(queue);
      // The read starts the delivery, and its result is recorded: it is in flight no more.
      await sendDue();
      expect(active.addFresh(found(foundAtMs), [fresh('a')])).toBe(isAccepted);
      await sendDue();
      expect(started).toEqual(isAccepted ? ['a'] : []);
    });

    test('is not sent again during the read', async () => {
      const reading = Promise.withResolvers<{ rows: Due[] }>();
      const begun = Promise.withResolvers<void>();
      const query = () => {
        begun.resolve();
        return reading.promise;
      };
      const { active, sendDue } = scheduling({ pool: { query } as unknown as pg.Pool });
      active.addFresh(found(1), []);
      for (const queue of active.queues.values()) markDue(queue);
      const sending = sendDue();
      await begun.promise;
      for (const queue of active.queues.values()) queue.hasDueWork = false;
      expect(active.addFresh(found(5), [fresh('a')])).toBe(false);
      reading.resolve({ rows: [] });
      await sending;
    });

    test('is not sent again when its queue was unloaded in between', async () => {
      jest.advanceTimersByTime(1);
      const { active, sendDue } = scheduling();
      active.addFresh(found(0.5), []);
      for (const queue of active.queues.values()) markDue(queue);
      await sendDue();
      active.remove(KEY);
      expect(active.addFresh(found(1), [fresh('a')])).toBe(false);
      expect(active.addFresh(found(2), [fresh('b')])).toBe(true);
    });
  });

  describe('fresh deliveries of a queue', () => {
    test('that is not active are accepted when no other delivery waits in it', () => {
      const active = new ActiveQueues();
      expect(active.addFresh({ ...target, wasEmpty: false }, [fresh('a')])).toBe(false);
      expect(active.queues.size).toBe(0);
      expect(active.addFresh(target, [fresh('a')])).toBe(true);
      expect(active.due()).toMatchObject([{ key: KEY, hasDueWork: false }]);
    });

    test('that has moved to another endpoint are left to the table', () => {
      const active = new ActiveQueues();
      active.addFresh(target, []);
      const moved = { ...target, endpointId: 2n, endpointKey: '1:2' };
      expect(active.addFresh(moved, [fresh('a')])).toBe(false);
    });

    test('that was not read from the start for a while are left to the table', () => {
      const active = new ActiveQueues();
      expect(active.addFresh(target, [fresh('a')])).toBe(true);
      jest.advanceTimersByTime(60_000);
      expect(active.addFresh(target, [fresh('b')])).toBe(false);
    });

    test('are dropped with the queue', async () => {
      const { active, started, sendDue } = scheduling();
      active.addFresh(target, [fresh('a')]);
      active.keepOnly([2]);
      active.addFresh(target, [fresh('b')]);
      await sendDue();
      expect(started).toEqual(['b']);
    });

    test('are limited by their bytes, and free them when they are taken', async () => {
      const { active, sendDue } = scheduling();
      const large = 5 * 1024 * 1024;
      expect(active.addFresh(target, [fresh('a', large)])).toBe(true);
      expect(active.addFresh(target, [fresh('b', large)])).toBe(false);
      await sendDue();
      expect(active.addFresh(target, [fresh('c', large)])).toBe(true);
      active.remove(KEY);
      expect(active.addFresh(target, [fresh('d', large)])).toBe(true);
    });

    test('are left to the table when the number of active queues is at its limit', () => {
      const active = new ActiveQueues();
      for (let n = 2; n < MAX_ACTIVE_QUEUES + 2; n += 1) active.add({ ...target, key: `1:${n}` });
      expect(active.addFresh(target, [fresh('a')])).toBe(false);
    });
  });
});
