import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { outcomesOfPair, pairsOf } from '../../../test/kit/postgres/raced.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

describe('a call with a key', () => {
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
        webhooks.client.rotateSecret({
          shopId,
          actor,
          subscriptionId,
          overlapHours,
          idempotencyKey,
        });
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
});

test('an update with a key is applied once: a repeat returns the present subscription', async () => {
  const shopId = newShop();
  const url = 'https://partner.example.com/hooks';
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
  const update = (status: SubscriptionStatus, idempotencyKey = '') =>
    webhooks.client.updateSubscription({ shopId, actor, subscriptionId, status, idempotencyKey });
  const { ACTIVE, INACTIVE } = SubscriptionStatus;
  await update(INACTIVE, 'k-1');
  await update(ACTIVE);
  expect((await update(INACTIVE, 'k-1')).subscription?.status).toBe(ACTIVE);
  expect(await refusal(update(ACTIVE, 'k-1'))).toMatchObject({ reason: 'IDEMPOTENCY_CONFLICT' });
});

test('a change that expects what it replaces overwrites no later change of the same value', async () => {
  const shopId = newShop();
  const at = 'https://partner.example.com/';
  const [before, mine, theirs] = [`${at}1`, `${at}2`, `${at}3`] as const;
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: before });
  const update = (more: object) =>
    webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...more });
  const undo = { url: before, expected: { url: mine, status: SubscriptionStatus.ACTIVE } };
  await update({ url: mine });
  await update({ description: 'Other values do not matter', status: SubscriptionStatus.INACTIVE });
  expect((await update(undo)).subscription?.url).toBe(before);
  await update({ url: theirs });
  expect(await refusal(update(undo))).toMatchObject({
    reason: 'REVISION_CONFLICT',
    field: 'expected.url',
  });
  await expect(update(undo)).rejects.toThrow(`it is now ${theirs}`);
});

describe('secrets of a subscription', () => {
  const url = 'http://127.0.0.1:1/hook';

  describe('rotateSecret', () => {
    test('lets the old secret sign too during the overlap', async () => {
      const receiver = await startReceiver();
      const shopId = newShop();
      const { id: subscriptionId, secret: old } = await webhooks.subscribe({
        shopId,
        url: receiver.url,
      });
      const { secret: fresh } = await webhooks.client.rotateSecret({
        shopId,
        actor,
        subscriptionId,
      });
      await webhooks.client.sendTest({ shopId, actor, subscriptionId });
      const { headers, body } = await until(() => receiver.received[0]);
      const given = JSON.parse(JSON.stringify(headers));
      for (const secret of [old, fresh?.value ?? '']) new Webhook(secret).verify(body, given);
      const { secrets } = await webhooks.client.revealSecret({ shopId, actor, subscriptionId });
      expect(secrets.map((one) => one.value)).toEqual([fresh?.value, old]);
      const overlapS = Number(secrets[1]?.expiresAt?.seconds) - Date.now() / 1_000;
      expect(overlapS / 3_600).toBeCloseTo(24, 1);

      await webhooks.client.rotateSecret({ shopId, actor, subscriptionId, overlapHours: 0 });
      await webhooks.client.sendTest({ shopId, actor, subscriptionId });
      const last = await until(() => receiver.received[1]);
      const lastGiven = JSON.parse(JSON.stringify(last.headers));
      expect(() => new Webhook(old).verify(last.body, lastGiven)).toThrow();
      const call = webhooks.client.rotateSecret({
        shopId,
        actor,
        subscriptionId,
        overlapHours: 169,
      });
      expect(await refusal(call)).toMatchObject({ field: 'overlap_hours' });
      await receiver.stop();
    });
  });

  describe('endFormerSecrets', () => {
    const secretsOf = async (of: { shopId: bigint; subscriptionId: bigint }) => {
      const { secrets } = await webhooks.client.revealSecret({ ...of, actor });
      return secrets.map(({ value }) => value);
    };

    test('leaves only the newest secret, which signs alone', async () => {
      const receiver = await startReceiver();
      const of = { shopId: newShop(), actor };
      const { id, secret: leaked } = await webhooks.subscribe({ ...of, url: receiver.url });
      const call = { ...of, subscriptionId: id };
      const key = { idempotencyKey: 'k-1' };
      const { secret: between } = await webhooks.client.rotateSecret({ ...call, ...key });
      const { secret: newest } = await webhooks.client.rotateSecret(call);
      expect(await secretsOf(call)).toEqual([newest?.value, between?.value, leaked]);
      expect(await webhooks.client.endFormerSecrets(call)).toMatchObject({ ended: 2 });
      expect(await secretsOf(call)).toEqual([newest?.value]);
      expect(await webhooks.client.endFormerSecrets(call)).toMatchObject({ ended: 0 });
      // The repeat of a rotation does not bring an ended secret back.
      const repeated = await webhooks.client.rotateSecret({ ...call, ...key });
      expect(repeated.secret?.value).toBe(newest?.value);

      await webhooks.client.sendTest(call);
      const { headers, body } = await until(() => receiver.received[0]);
      const given = JSON.parse(JSON.stringify(headers));
      new Webhook(newest?.value ?? '').verify(body, given);
      expect(given['webhook-signature'].split(' ')).toHaveLength(1);
      await receiver.stop();
    });

    test('ends nothing that another subscription or a later rotation needs', async () => {
      const of = { shopId: newShop(), actor };
      const one = await webhooks.subscribe({ ...of, url });
      const other = await webhooks.subscribe({ ...of, url });
      for (const { id } of [one, other]) {
        await webhooks.client.rotateSecret({ ...of, subscriptionId: id });
      }
      const call = { ...of, subscriptionId: one.id };
      // In either order, the newest secret stays.
      const [{ secret: newest }] = await Promise.all([
        webhooks.client.rotateSecret(call),
        webhooks.client.endFormerSecrets(call),
      ]);
      expect((await secretsOf(call))[0]).toBe(newest?.value);
      expect(await secretsOf({ ...of, subscriptionId: other.id })).toHaveLength(2);
    });
  });

  test('after many concurrent rotations, the last ten secrets sign', async () => {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
    const rotate = () => webhooks.client.rotateSecret({ shopId, actor, subscriptionId });
    await Promise.all(Array.from({ length: 11 }, rotate));
    const { secret: newest } = await rotate();
    const { secrets } = await webhooks.client.revealSecret({ shopId, actor, subscriptionId });
    expect(secrets).toHaveLength(10);
    expect(secrets[0]).toMatchObject({ value: newest?.value });
  });
});

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
