import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  DeliveryState,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { createShardHolder } from '../../platform/leases/shards.ts';
import { NO_TIMING, type SendResult } from '../sender/send-result.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS } from './queue/queue-ref.ts';
import { readDue } from './queue/read-due.ts';
import type { AttemptResult } from './results/attempt-result.ts';
import { writeResults } from './results/write-results.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

describe('a process that stops while an endpoint hangs', () => {
  test('hands the other endpoints over immediately, and records its attempts in flight', async () => {
    const receiver = await startReceiver();
    let answer = (): void => {};
    receiver.answer = (response, { path }) => {
      if (path.endsWith('/hangs')) answer = () => void response.writeHead(200).end();
      else response.writeHead(200).end();
    };
    const leaving = await runWebhooks({ db });
    const [hanging, healthy] = [newShop(), newShop()];
    await leaving.subscribe({ shopId: hanging, url: `${receiver.url}/hangs` });
    await leaving.subscribe({ shopId: healthy, url: `${receiver.url}/answers` });
    await leaving.publish(sampleEvent('return.closed', hanging));
    await until(() => receiver.received.length === 1);
    const stopped = leaving.stop();

    const staying = await runWebhooks({ db });
    await staying.publish(sampleEvent('return.closed', healthy));
    await until(() => receiver.received.length === 2);
    expect(receiver.received[1]?.path).toContain('/answers');

    answer();
    await stopped;
    const [delivery] = await staying.deliveries(hanging);
    expect(delivery).toMatchObject({ state: DeliveryState.DELIVERED, attempts: [{ status: 200 }] });
    expect(receiver.received).toHaveLength(2);
    await staying.stop();
    await receiver.stop();
  });
});

describe('changes of a busy subscription', () => {
  let webhooks: WebhooksUnderTest;

  beforeAll(async () => {
    webhooks = await runWebhooks();
  });
  afterAll(() => webhooks.stop());

  test('never leave a due delivery in the queue of an inactive one, and fail no call', async () => {
    const receiver = await startReceiver();
    receiver.answer = (response, _, nth) =>
      void response.writeHead(nth % 3 === 0 ? 500 : 200).end();
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
    const set = (status: SubscriptionStatus, path: string) =>
      webhooks.client.updateSubscription({
        shopId,
        actor,
        subscriptionId,
        topic: 'return',
        trigger: 'return.closed',
        url: `${receiver.url}${path}`,
        status,
      });
    const publishing = (async () => {
      for (let n = 0; n < 30; n += 1) {
        await webhooks.publish(
          sampleEvent('return.closed', shopId),
          sampleEvent('return.closed', shopId),
        );
      }
    })();
    for (let n = 0; n < 15; n += 1) {
      await set(SubscriptionStatus.INACTIVE, '/a');
      const inactive = await webhooks.deliveries(shopId);
      expect(inactive.filter((one) => one.state === DeliveryState.WAITING)).toEqual([]);
      await set(SubscriptionStatus.ACTIVE, n % 2 ? '/b' : '');
    }
    await publishing;
    const allArrived = async () => {
      webhooks.advance(40);
      const rows = await webhooks.deliveries(shopId);
      return rows.every((one) => one.state === DeliveryState.DELIVERED);
    };
    await until(allArrived);
    const ids = (await webhooks.deliveries(shopId)).map((one) => one.id);
    const arrived = new Set(receiver.received.map((one) => one.headers['webhook-id']));
    expect(ids.every((id) => arrived.has(id))).toBe(true);
    await receiver.stop();
  });
});

const delivered: SendResult = {
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

/** Deliveries that wait in the database, without a process that could send them. */
async function leaveWaiting(count: number) {
  const receiver = await startReceiver();
  receiver.answer = (response) => void response.writeHead(500).end();
  const webhooks = await runWebhooks({ db });
  const shopId = newShop();
  await webhooks.subscribe({ shopId, url: receiver.url });
  await webhooks.publish(
    ...Array.from({ length: count }, () => sampleEvent('return.closed', shopId)),
  );
  await until(async () =>
    (await webhooks.deliveries(shopId)).every((row) => row.attempts.length === 1),
  );
  await webhooks.stop();
  receiver.answer = (response) => void response.writeHead(200).end();
  return { receiver, shopId };
}

/** Makes all waiting deliveries due in an hour. */
const AN_HOUR_MS = 3_600_000;

/** Another process that loaded the due deliveries of a shop, and then died. */
async function takeUp(shopId: bigint): Promise<AttemptResult[]> {
  const shards = createShardHolder({
    pool: db.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
  });
  await shards.rebalance();
  const { rows } = await db.pool.query<{ subscriptionId: bigint; endpointId: bigint }>(
    'select subscription_id as "subscriptionId", endpoint_id as "endpointId" from subscription_queues where shop_id = $1',
    [shopId],
  );
  const due = await readDue(
    db.pool,
    rows.map((queue) => ({
      shopId,
      ...queue,
      limit: 100,
      healthClass: 'trusted' as const,
      mode: 'all' as const,
      freshFromMs: 0,
      retriesFromMs: 0,
    })),
    { except: [], maxBytes: { trusted: 1e9, new: 0, slow: 0, failing: 0 }, offsetMs: AN_HOUR_MS },
  );
  return due.map((one) => ({
    due: one,
    token: shards.tokenOf(one.shard) ?? 0n,
    sent: { result: delivered, headers: '{}' },
    ended: 'delivered',
    pauseMs: 0,
  }));
}

/** Lets the lease expire. */
function expireLeases(): Promise<unknown> {
  return db.pool.query(`update leases set expires_at = now() - interval '1 second'`);
}

describe('attempts in flight of a process that died', () => {
  test('are sent again by another process, and later results of the dead one are rejected', async () => {
    const { receiver, shopId } = await leaveWaiting(1);
    const taken = await takeUp(shopId);
    expect(taken).toHaveLength(1);
    await expireLeases();

    const webhooks = await runWebhooks({ db });
    webhooks.advance(3_600);
    const delivery = await until(async () => {
      const [row] = await webhooks.deliveries(shopId);
      return row?.state === DeliveryState.DELIVERED && row;
    });
    expect(receiver.received.map((one) => one.headers['webhook-id'])).toEqual([
      delivery.id,
      delivery.id,
    ]);

    const written = await writeResults(db.pool, taken, [], { offsetMs: 0 });
    expect(written.stale).toHaveLength(1);
    expect((await webhooks.deliveries(shopId))[0]?.attempts).toHaveLength(2);
    await webhooks.stop();
    await receiver.stop();
  });

  test('are never lost', async () => {
    const { receiver, shopId } = await leaveWaiting(20);
    expect(await takeUp(shopId)).toHaveLength(20);
    await expireLeases();
    const webhooks = await runWebhooks({ db });
    webhooks.advance(3_600);
    await until(async () =>
      (await webhooks.deliveries(shopId)).every((row) => row.state === DeliveryState.DELIVERED),
    );
    expect(new Set(receiver.received.map((one) => one.headers['webhook-id'])).size).toBe(20);
    await webhooks.stop();
    await receiver.stop();
  });

  test('are taken over at the end of its lease, if it dies without a release', async () => {
    const { receiver, shopId } = await leaveWaiting(1);
    await takeUp(shopId);
    // Short, as in production, because the test waits for its end.
    const webhooks = await runWebhooks({ db, leaseMs: 3_000 });
    webhooks.advance(3_600);
    await until(
      async () => (await webhooks.deliveries(shopId))[0]?.state === DeliveryState.DELIVERED,
    );
    await webhooks.stop();
    await receiver.stop();
  });
});

describe('connections to the database that are cut while attempts are open', () => {
  test('cost no attempt: results are recorded as soon as possible', async () => {
    const receiver = await startReceiver();
    const webhooks = await runWebhooks({ db });
    const shopId = newShop();
    for (let n = 0; n < 8; n += 1) {
      await webhooks.subscribe({ shopId, url: `${receiver.url}/${n}` });
    }
    const answers: (() => void)[] = [];
    receiver.answer = (response) => {
      answers.push(() => response.writeHead(200).end());
    };
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(() => answers.length === 8);
    for (const answer of answers) {
      await db.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()`,
      );
      answer();
    }
    await until(async () =>
      (await webhooks.deliveries(shopId).catch(() => [])).every(
        (row) => row.state === DeliveryState.DELIVERED && row.attempts.length === 1,
      ),
    );
    expect(await webhooks.deliveries(shopId)).toHaveLength(8);
    expect(receiver.received).toHaveLength(8);
    await webhooks.stop();
    await receiver.stop();
  });
});

describe('two processes', () => {
  test('divide the endpoints, deliver each event once, and continue when one of them stops', async () => {
    const receiver = await startReceiver();
    const one = await runWebhooks({ db });
    const other = await runWebhooks({ db });
    const holders = async () => {
      const { rows } = await db.pool.query<{ shards: number }>(
        `select count(*)::int as shards from leases
          where starts_with(name, 'deliveries/shard/') and expires_at > now()
          group by owner order by owner`,
      );
      return rows.map((row) => row.shards);
    };
    await until(async () => (await holders()).join() === '16,16');
    const shopIds = Array.from({ length: 10 }, newShop);
    for (const shopId of shopIds) {
      await one.subscribe({ shopId, url: `${receiver.url}/${shopId}` });
    }
    const publish = () =>
      one.publish(
        ...shopIds.flatMap((shop) => [1, 2, 3].map(() => sampleEvent('return.closed', shop))),
      );
    const arrived = () => receiver.received.map((request) => request.headers['webhook-id']);
    await publish();
    await until(() => arrived().length >= 30);
    await Promise.all([publish(), other.stop()]);
    await until(() => arrived().length >= 60);
    await publish();
    await until(() => arrived().length >= 90);
    await until(async () => {
      const rows = (await Promise.all(shopIds.map(one.deliveries))).flat();
      return rows.length === 90 && rows.every((row) => row.state === DeliveryState.DELIVERED);
    });
    expect(arrived()).toHaveLength(90);
    expect(new Set(arrived()).size).toBe(90);
    await one.stop();
    await receiver.stop();
  });
});
