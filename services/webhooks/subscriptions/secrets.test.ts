import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
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

const url = 'http://127.0.0.1:1/hook';

describe('rotateSecret', () => {
  test('lets the old secret sign too during the overlap', async () => {
    const receiver = await startReceiver();
    const shopId = newShop();
    const { id: subscriptionId, secret: old } = await webhooks.subscribe({
      shopId,
      url: receiver.url,
    });
    const { secret: fresh } = await webhooks.client.rotateSecret({ shopId, actor, subscriptionId });
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
    const call = webhooks.client.rotateSecret({ shopId, actor, subscriptionId, overlapHours: 169 });
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
