import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
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

const FIELDS = {
  topic: 'return',
  trigger: 'return.closed',
  url: 'https://partner.example.com/hooks',
  status: SubscriptionStatus.INACTIVE,
};

/** A shop with its calls. */
function newCaller() {
  const shopId = newShop();
  return {
    create: async (o: Partial<typeof FIELDS> & { idempotencyKey?: string } = {}) => {
      const made = await webhooks.client.createSubscription({ shopId, actor, ...FIELDS, ...o });
      return { id: made.subscription?.id ?? 0n, equal: made.equalSubscriptionIds };
    },
    update: async (subscriptionId: bigint, o: Partial<typeof FIELDS>) => {
      const call = { shopId, actor, subscriptionId };
      return (await webhooks.client.updateSubscription({ ...call, ...o })).equalSubscriptionIds;
    },
    remove: (subscriptionId: bigint) =>
      webhooks.client.deleteSubscription({ shopId, actor, subscriptionId }),
  };
}

describe('a subscription with the address, topic and trigger of another one', () => {
  test('is made, and names the others by ascending id', async () => {
    const { create } = newCaller();
    const first = await create();
    const second = await create();
    const third = await create({ idempotencyKey: 'k' });
    expect(first.equal).toEqual([]);
    expect(second.equal).toEqual([first.id]);
    expect(third.equal).toEqual([first.id, second.id]);
    // A repeat does not name itself.
    expect(await create({ idempotencyKey: 'k' })).toEqual(third);
  });

  test.each([
    { topic: 'label' },
    { trigger: 'return.created' },
    { url: 'https://partner.example.com/hooks/' },
  ])('is none if it differs: %j', async (other) => {
    const { create } = newCaller();
    await create();
    expect((await create(other)).equal).toEqual([]);
  });

  test('is none if the other one was deleted, or belongs to another shop', async () => {
    const { create, remove } = newCaller();
    const { id } = await create();
    await remove(id);
    expect((await create()).equal).toEqual([]);
    expect((await newCaller().create()).equal).toEqual([]);
  });

  test('is named when an update makes them equal', async () => {
    const { create, update } = newCaller();
    const { id: first } = await create();
    const { id: second } = await create({ trigger: 'return.created' });
    expect(await update(second, { url: 'https://partner.example.com/other' })).toEqual([]);
    expect(await update(second, { url: FIELDS.url, trigger: FIELDS.trigger })).toEqual([first]);
  });
});
