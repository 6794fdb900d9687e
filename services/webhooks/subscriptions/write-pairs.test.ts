import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { outcomesOfPair, pairsOf } from '../../../test/kit/postgres/raced.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

interface Target {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
}

const update = (of: Target, change: object) =>
  webhooks.client.updateSubscription({ ...of, actor, ...change });

/** Each write of a subscription. Returns what does not differ between two runs. */
const WRITES: Readonly<Record<string, (of: Target) => Promise<unknown>>> = {
  address: async (of) => (await update(of, { url: 'https://new.example.com/' })).subscription?.url,
  trigger: async (of) => (await update(of, { trigger: 'return.created' })).subscription?.trigger,
  deactivate: async (of) =>
    (await update(of, { status: SubscriptionStatus.INACTIVE })).subscription?.status,
  delete: async (of) =>
    (await webhooks.client.deleteSubscription({ ...of, actor })).previous?.status,
  rotate: async (of) => (await webhooks.client.rotateSecret({ ...of, actor })).secret?.value.length,
  reveal: async (of) => (await webhooks.client.revealSecret({ ...of, actor })).secrets.length,
  'end former secrets': async (of) =>
    (await webhooks.client.endFormerSecrets({ ...of, actor })).ended,
  test: async (of) => (await webhooks.client.sendTest({ ...of, actor })).delivery?.trigger,
  retry: async (of) => (await webhooks.client.retryDeliveries({ ...of, actor })).count,
  'payload version': async ({ shopId }) =>
    (await webhooks.client.setPayloadVersion({ shopId, actor, version: '2026-07' })).version,
};

async function newTarget(): Promise<Target> {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({
    shopId,
    url: 'https://old.example.com/',
  });
  await webhooks.client.rotateSecret({ shopId, subscriptionId, actor });
  return { shopId, subscriptionId };
}

/** What is stored of a subscription. A deleted one has a row, too, and its closed queue is removed later. */
async function stored({ shopId, subscriptionId }: Target): Promise<unknown> {
  const { rows } = await webhooks.db.pool.query(
    `select s.deleted_at is not null as deleted, s.status, s.trigger, e.url, coalesce(q.is_open, false) as is_open,
            s.deleted_at is not null or (q.trigger = s.trigger and q.endpoint_id = s.endpoint_id) as is_queue_equal,
            s.secret_shown_at is not null as shown,
            (select count(*)::int from secrets x where x.shop_id = s.shop_id and x.subscription_id = s.id) as secrets,
            (select count(*)::int from deliveries d where d.shop_id = s.shop_id and d.subscription_id = s.id) as deliveries,
            (select version from payload_versions v where v.shop_id = s.shop_id) as version
       from subscriptions s
       join endpoints e on e.shop_id = s.shop_id and e.id = s.endpoint_id
       left join subscription_queues q on q.shop_id = s.shop_id and q.subscription_id = s.id
      where s.shop_id = $1 and s.id = $2`,
    [shopId, subscriptionId],
  );
  return rows;
}

const text = 'select from subscriptions where shop_id = $1 and id = $2 for update';
const lock = ({ shopId, subscriptionId }: Target) => ({ text, values: [shopId, subscriptionId] });

describe('two writes of one subscription at the same time have the outcome of one after the other', () => {
  test.each(pairsOf(Object.keys(WRITES)))('%s, then %s', async (...pair) => {
    const { pool } = webhooks.db;
    const subscription = { pool, make: newTarget, lock, writes: WRITES, stored };
    const { together, serial } = await outcomesOfPair(subscription, pair);
    expect(together).toEqual(serial);
  });
});
