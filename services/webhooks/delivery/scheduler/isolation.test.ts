import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
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
import { inTransaction } from '../../../platform/postgres.ts';
import { endBacklog } from '../queue/end-waiting.ts';

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
        const first = await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts[0]);
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
  }, 30_000);
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
