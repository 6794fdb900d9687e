import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { canonicalHost, MAX_ACTIVE_PER_HOST } from './subscription-limits.ts';

const HOST = 'hooks.example.com';
const wanted = { topic: 'return', trigger: 'return.closed', url: `https://${HOST}/` };
const refused = { code: Code.ResourceExhausted, reason: 'QUOTA_EXCEEDED' };
const { ACTIVE, INACTIVE } = SubscriptionStatus;

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

interface Change {
  readonly topic?: string;
  readonly trigger?: string;
  readonly url?: string;
  readonly status?: SubscriptionStatus;
}

async function create(shopId: bigint, change: Change = {}): Promise<bigint> {
  const request = { shopId, actor, ...wanted, ...change };
  const { subscription } = await webhooks.client.createSubscription(request);
  return subscription?.id ?? 0n;
}

async function update(shopId: bigint, subscriptionId: bigint, change: Change): Promise<void> {
  await webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...change });
}

/** A shop with the full number of subscriptions to the host. */
async function fullShop(): Promise<{ shopId: bigint; ids: bigint[] }> {
  const shopId = newShop();
  const ids: bigint[] = [];
  while (ids.length < MAX_ACTIVE_PER_HOST) {
    ids.push(await create(shopId, { url: `https://${HOST}/${ids.length}` }));
  }
  return { shopId, ids };
}

async function countActive(shopId: bigint): Promise<number> {
  const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
  return subscriptions.filter((one) => one.status === ACTIVE && one.url.includes(HOST)).length;
}

describe('active subscriptions to one host for one topic and trigger', () => {
  test('are limited to five; the sixth is rejected with the limit', async () => {
    const { shopId } = await fullShop();
    const sixth = create(shopId);
    await expect(sixth).rejects.toThrow(
      'at most 5 active webhook subscriptions to one host for one pair of topic and trigger; hooks.example.com has 5',
    );
    expect(await refusal(sixth)).toMatchObject(refused);
    await create(newShop());
  });

  test.each([
    `https://${HOST}./`,
    `https://${HOST.toUpperCase()}/`,
    `https://${HOST}:8443/other`,
    `https://h%6foks.example.com/`,
    'https://ｈooks.example.com/',
  ])('count %s as the same host', async (url) => {
    const { shopId } = await fullShop();
    expect(await refusal(create(shopId, { url }))).toMatchObject(refused);
  });

  test('do not limit other hosts, topics, triggers and inactive ones', async () => {
    const { shopId } = await fullShop();
    await create(shopId, { url: `https://other.${HOST}/` });
    await create(shopId, { topic: 'label' });
    await create(shopId, { trigger: 'return.created' });
    await create(shopId, { status: INACTIVE });
  });

  test('cannot be exceeded by an update of address, topic, trigger or status', async () => {
    const { shopId } = await fullShop();
    const attempts: [Change, Change][] = [
      [{ url: 'https://other.example.com/' }, { url: wanted.url }],
      [{ topic: 'label' }, { topic: wanted.topic }],
      [{ trigger: 'return.created' }, { trigger: wanted.trigger }],
      [{ status: INACTIVE }, { status: ACTIVE }],
      [
        { status: INACTIVE, trigger: 'return.created' },
        { ...wanted, status: ACTIVE },
      ],
    ];
    for (const [start, change] of attempts) {
      const id = await create(shopId, start);
      expect(await refusal(update(shopId, id, change))).toMatchObject(refused);
    }
  });

  test('may be changed in place, and one that ends frees a place', async () => {
    const { shopId, ids } = await fullShop();
    const [first = 0n, second = 0n] = ids;
    await update(shopId, first, { ...wanted, url: `https://${HOST}:8443/moved`, status: ACTIVE });
    await update(shopId, first, { status: INACTIVE });
    await create(shopId);
    expect(await refusal(update(shopId, first, { status: ACTIVE }))).toMatchObject(refused);
    await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId: second });
    await update(shopId, first, { status: ACTIVE });
  });

  test('stay five when many are created and activated concurrently', async () => {
    const shopId = newShop();
    const sleeping = await Promise.all(
      Array.from({ length: 6 }, () => create(shopId, { status: INACTIVE })),
    );
    const results = await Promise.allSettled([
      ...Array.from({ length: 6 }, () => create(shopId)),
      ...sleeping.map((id) => update(shopId, id, { status: ACTIVE })),
    ]);
    const passed = results.filter(({ status }) => status === 'fulfilled');
    expect(passed).toHaveLength(MAX_ACTIVE_PER_HOST);
    expect(await countActive(shopId)).toBe(MAX_ACTIVE_PER_HOST);
  });

  test('have no limit at addresses that only a local stack may use', async () => {
    const shopId = newShop();
    for (let nth = 0; nth <= MAX_ACTIVE_PER_HOST; nth += 1) {
      await create(shopId, { url: `http://127.0.0.1:9000/${nth}` });
    }
  });
});

test.each([
  ['https://BÜCHER.example/', 'xn--bcher-kva.example'],
  ['https://8.8.8.8:444/', '8.8.8.8'],
  ['https://[::ffff:8.8.8.8]/', '8.8.8.8'],
  ['https://0x8.8.8.8/', '8.8.8.8'],
  ['https://[2606:4700:0::1111]/', '2606:4700::1111'],
  ['not a url', undefined],
])('the host of %s is %s', (url, host) => {
  expect(canonicalHost(url)).toBe(host);
});
