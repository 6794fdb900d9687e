import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

// Nothing is sent: the tests delete or never activate what would go there.
const url = 'https://partner.example.com/hooks';
const KEY = 'k-1';
const conflict = { reason: 'IDEMPOTENCY_CONFLICT', field: 'idempotency_key' };
const { INACTIVE } = SubscriptionStatus;

describe('create subscription with a key', () => {
  const create = (shopId: bigint, trigger = 'return.closed', idempotencyKey = KEY) =>
    webhooks.client.createSubscription({
      shopId,
      actor,
      topic: 'return',
      trigger,
      url,
      status: INACTIVE,
      idempotencyKey,
    });
  const all = async (shopId: bigint) =>
    (await webhooks.client.listSubscriptions({ shopId, actor })).subscriptions;

  test('creates one in a race, and a repeat returns it with the same secret', async () => {
    const shopId = newShop();
    const [first, second] = await Promise.all([create(shopId), create(shopId)]);
    expect(second).toEqual(first);
    expect(await create(shopId)).toEqual(first);
    expect(await all(shopId)).toHaveLength(1);
    expect(await refusal(create(shopId, 'return.created'))).toMatchObject(conflict);
    await create(newShop());
  });

  test('is not undone or doubled by a repeat after later changes', async () => {
    const shopId = newShop();
    const { subscription, secret } = await create(shopId);
    const subscriptionId = subscription?.id ?? 0n;
    const call = { shopId, actor, subscriptionId };
    const rotated = await webhooks.client.rotateSecret(call);
    expect((await create(shopId)).secret).toBe(secret);
    await webhooks.client.rotateSecret({ ...call, overlapHours: 0 });
    const { secret: newest } = await create(shopId);
    expect([secret, rotated.secret?.value]).not.toContain(newest);
    await webhooks.client.deleteSubscription(call);
    expect(await refusal(create(shopId))).toMatchObject({ reason: 'SUBSCRIPTION_NOT_FOUND' });
    expect(await all(shopId)).toEqual([]);
  });

  test('keeps no secret in clear', async () => {
    const { secret } = await create(newShop());
    const bytes = Buffer.from(secret.replace('whsec_', ''), 'base64').toString('hex');
    const { rows } = await webhooks.db.pool.query<{ table: string; text: string }>(
      `select 'keys' as table, k::text as text from idempotency_keys k
       union all select 'secrets', s::text from secrets s`,
    );
    expect(rows.map(({ table }) => table)).toEqual(expect.arrayContaining(['keys', 'secrets']));
    for (const { text } of rows) {
      expect(text).not.toContain(bytes);
      expect(text).not.toContain(secret);
      expect(text).not.toContain(Buffer.from(secret).toString('hex'));
    }
  });
});

describe('update subscription with a key', () => {
  test.each([0n, -1n, 2n ** 53n, 2n ** 63n - 1n])('of the id %s does not exist', async (id) => {
    const call = { shopId: newShop(), actor, subscriptionId: id, idempotencyKey: KEY };
    expect(await refusal(webhooks.client.updateSubscription(call))).toMatchObject({
      reason: 'SUBSCRIPTION_NOT_FOUND',
    });
  });
});

describe('rotate secret with a key', () => {
  test('rotates once in a race, and a repeat returns the same secret', async () => {
    const shopId = newShop();
    const { id: subscriptionId, secret: old } = await webhooks.subscribe({ shopId, url });
    const rotate = (overlapHours = 24, idempotencyKey = KEY) =>
      webhooks.client.rotateSecret({ shopId, actor, subscriptionId, overlapHours, idempotencyKey });
    const [first, second] = await Promise.all([rotate(), rotate()]);
    expect(second).toEqual(first);
    const valid = async () => {
      const { secrets } = await webhooks.client.revealSecret({ shopId, actor, subscriptionId });
      return secrets.map(({ value }) => value);
    };
    expect(await valid()).toEqual([first.secret?.value, old]);
    const { secret: newest } = await rotate(24, 'k-2');
    expect((await rotate()).secret?.value).toBe(first.secret?.value);
    expect(await valid()).toEqual([newest?.value, first.secret?.value, old]);
    expect(await refusal(rotate(0))).toMatchObject(conflict);
  });
});

describe('send test with a key', () => {
  test('writes one delivery in a race, and a repeat returns it', async () => {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
    const send = (trigger = '', idempotencyKey = KEY) =>
      webhooks.client.sendTest({ shopId, actor, subscriptionId, trigger, idempotencyKey });
    const [first, second] = await Promise.all([send(), send()]);
    const id = first.delivery?.id;
    expect([second.delivery?.id, (await send()).delivery?.id]).toEqual([id, id]);
    expect(await refusal(send('return.created'))).toMatchObject(conflict);
    expect(await webhooks.deliveries(shopId)).toHaveLength(1);
    await send('', 'k-2');
    expect(await webhooks.deliveries(shopId)).toHaveLength(2);
  });
});
