import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { actor, newShop } from '../../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { newestActive } from '../../../contract/versions.ts';
import { inTransaction } from '../../../platform/postgres.ts';
import { payloadIdOf } from '../../delivery-id.ts';
import { deliveriesOf, fanOut, lockQueues } from '../../fan-out/fan-out.ts';
import { eventKeyOf } from '../../fan-out/insert.ts';
import { DELIVERY_SHARDS } from './queue-ref.ts';
import { readDue } from './read-due.ts';
import { findTargets } from './targets.ts';

let webhooks: WebhooksUnderTest;

beforeAll(async () => {
  // It does not send, so deliveries of the tests stay queued.
  webhooks = await runWebhooks({ WEBHOOK_CONCURRENCY: 0 });
});
afterAll(() => webhooks.stop());

const URL = 'https://example.com/hooks';
const TRIGGER = 'return.closed';
const SHARDS = Array.from({ length: DELIVERY_SHARDS }, (_, shard) => shard);

async function subscribed() {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: URL });
  return { shopId, subscriptionId };
}

const targetsOf = (shopId: bigint, shards = SHARDS) =>
  findTargets(webhooks.db.pool, [{ shopId, trigger: TRIGGER }], shards);

const queue = (o: { shopId: bigint; subscriptionId: bigint }, isRetry: boolean) =>
  webhooks.db.pool.query(
    `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at)
     values ($1, $2, gen_random_uuid(), gen_random_uuid(), 1, $3, now() + interval '1 hour', now())`,
    [o.shopId, o.subscriptionId, isRetry],
  );

test('a delivery from memory equals a delivery read from the table', async () => {
  const { shopId, subscriptionId } = await subscribed();
  await webhooks.client.rotateSecret({ shopId, actor, subscriptionId });
  const event = { ...sampleEvent(TRIGGER, shopId), traceparent: 'of its cause', revision: 7n };
  const { fresh } = await inTransaction(webhooks.db.pool, async (tx) => {
    const queues = await lockQueues(tx, [event]);
    const targets = await findTargets(tx, [event], SHARDS);
    const deliveries = deliveriesOf([event], queues, new Date());
    return fanOut(tx, deliveries, { offsetMs: 3_600_000, targets });
  });
  const [{ target, deliveries } = { target: undefined, deliveries: [] }] = fresh;
  expect(target).toMatchObject({ shopId, subscriptionId, wasEmpty: true });
  const { endpointId = 0n } = target ?? {};
  const all = { all: 10, trusted: 1e9, new: 1e9, slow: 1e9, failing: 1e9 };
  const read = await readDue(
    webhooks.db.pool,
    [
      {
        shopId,
        subscriptionId,
        endpointId,
        limit: 10,
        mode: 'all',
        healthClass: 'new',
        freshFromMs: 0,
        retriesFromMs: 0,
      },
    ],
    { except: [], maxBytes: all, offsetMs: 3_600_000 },
  );
  expect(read).toHaveLength(1);
  expect(read[0]?.encryptedSecrets).toContain(',');
  expect(deliveries).toEqual(read);
});

test('a body that was stored before is read, because another release may have shaped and sent it', async () => {
  const { shopId } = await subscribed();
  const event = sampleEvent(TRIGGER, shopId);
  const today = new Date();
  const id = payloadIdOf(eventKeyOf(event), 'return', newestActive(today));
  await webhooks.db.pool.query(
    `insert into payloads (shop_id, id, event_id, trigger, topic, api_version, body)
     values ($1, $2, $3, $4, 'return', $5, 'sent before')`,
    [shopId, id, event.eventId, TRIGGER, newestActive(today)],
  );
  const { written, fresh } = await inTransaction(webhooks.db.pool, async (tx) => {
    const queues = await lockQueues(tx, [event]);
    const targets = await findTargets(tx, [event], SHARDS);
    return fanOut(tx, deliveriesOf([event], queues, today), { offsetMs: 0, targets });
  });
  expect({ written, fresh }).toEqual({ written: 1, fresh: [] });
});

describe('deliveries are sent from memory', () => {
  test('when their queue is empty, or contains only fresh ones', async () => {
    const of = await subscribed();
    expect(await targetsOf(of.shopId)).toMatchObject([{ ...of, url: URL, wasEmpty: true }]);
    await queue(of, false);
    expect(await targetsOf(of.shopId)).toMatchObject([of]);
  });

  test('not while a retry waits, because only the table knows when it is due', async () => {
    const of = await subscribed();
    await queue(of, true);
    expect(await targetsOf(of.shopId)).toEqual([]);
  });

  test('not when another process sends for the endpoint', async () => {
    const { shopId } = await subscribed();
    const [target] = await targetsOf(shopId);
    const others = SHARDS.filter((shard) => shard !== target?.shard);
    expect(await targetsOf(shopId, others)).toEqual([]);
    expect(await targetsOf(shopId, [])).toEqual([]);
  });

  test.each(['is_open = false', 'expire_before = now()'])(
    'not when the queue has %s',
    async (set) => {
      const { shopId } = await subscribed();
      await webhooks.db.pool.query(`update subscription_queues set ${set} where shop_id = $1`, [
        shopId,
      ]);
      expect(await targetsOf(shopId)).toEqual([]);
    },
  );
});
