import { timestampDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { actor, newShop, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { runWebhooks, type WebhooksUnderTest } from '../../test/kit/webhooks/running-webhooks.ts';

/** What the merchant's portal asks of this service, and nobody else. */

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

const url = 'http://127.0.0.1:1/hook';

test('a signing secret says who last saw it', async () => {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
  const get = async () =>
    (await webhooks.client.getSubscription({ shopId, actor, subscriptionId })).subscription;
  expect((await get())?.secretShownAt).toBeUndefined();
  await webhooks.client.revealSecret({ shopId, actor, subscriptionId });
  expect((await get())?.secretShownTo).toMatchObject(actor);
  expect((await get())?.secretShownAt).toBeDefined();
});

test('one webhook has its backlog if that is asked for', async () => {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
  const about = { shopId, actor, subscriptionId };
  await webhooks.client.sendTest(about);
  const backlogOf = async (includeBacklog: boolean) =>
    (await webhooks.client.getSubscription({ ...about, includeBacklog })).subscription?.backlog;
  expect(await backlogOf(false)).toBeUndefined();
  expect(await backlogOf(true)).toMatchObject({ count: 1, more: false });
});

test('a webhook says until when former secrets sign', async () => {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
  const about = { shopId, actor, subscriptionId };
  const until = async () =>
    (await webhooks.client.getSubscription(about)).subscription?.formerSecretsUntil;
  expect(await until()).toBeUndefined();
  const before = Date.now();
  await webhooks.client.rotateSecret({ ...about, overlapHours: 2 });
  const end = await until();
  const [from, to] = [before + 2 * 3_600_000 - 1_000, Date.now() + 2 * 3_600_000 + 1_000];
  expect(end && timestampDate(end).getTime()).toBeGreaterThan(from);
  expect(end && timestampDate(end).getTime()).toBeLessThan(to);
  const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
  expect(subscriptions[0]?.formerSecretsUntil).toEqual(end);
  await webhooks.client.rotateSecret({ ...about, overlapHours: 0 });
  expect(await until()).toBeUndefined();
  await webhooks.client.rotateSecret(about);
  await webhooks.client.endFormerSecrets(about);
  expect(await until()).toBeUndefined();
});

test('a change says what was there before it, and a repeat with the same key does not', async () => {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
  const change = { shopId, actor, subscriptionId, url: `${url}/new`, idempotencyKey: 'k-1' };
  const first = await webhooks.client.updateSubscription(change);
  expect(first.previous).toMatchObject({ topic: 'return', trigger: 'return.closed', url });
  expect((await webhooks.client.updateSubscription(change)).previous).toBeUndefined();
  const deleted = await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId });
  expect(deleted.previous).toMatchObject({ url: `${url}/new` });
});

test('the payload version changes only if it is the expected one', async () => {
  const shopId = newShop();
  const set = (version: string, expectedVersion: string) =>
    webhooks.client.setPayloadVersion({ shopId, actor, version, expectedVersion });
  const refused = { code: Code.FailedPrecondition };
  expect(await refusal(set('2026-07', '2026-07'))).toMatchObject(refused);
  expect(await set('2026-07', '2026-10')).toMatchObject({
    version: '2026-07',
    previous: '2026-10',
  });
  expect(await refusal(set('2026-07', '2026-10'))).toMatchObject(refused);
  await set('2026-10', '2026-07');
  expect((await webhooks.client.getPayloadVersion({ shopId, actor })).version).toBe('2026-10');
});

test('a test event has the requested version, and the shop keeps its own', async () => {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
  const send = (version: string) =>
    webhooks.client.sendTest({ shopId, actor, subscriptionId, version });
  expect((await send('2026-07')).delivery?.apiVersion).toBe('2026-07');
  expect((await send('')).delivery?.apiVersion).toBe('2026-10');
  const refused = { code: Code.InvalidArgument, field: 'version' };
  expect(await refusal(send('unstable'))).toMatchObject(refused);
});

describe('the last tests in a version', () => {
  const list = async (shopId: bigint, version: string) =>
    (await webhooks.client.listLastTests({ shopId, actor, version })).deliveries;

  test('are the newest one of each webhook, with what was answered', async () => {
    const shopId = newShop();
    const [one, other, untested] = [
      await webhooks.subscribe({ shopId, url }),
      // Its own address, so that failures of the others do not delay it.
      await webhooks.subscribe({ shopId, url: `${url}/other` }),
      await webhooks.subscribe({ shopId, url }),
    ];
    const send = async (subscriptionId: bigint, version: string) =>
      (await webhooks.client.sendTest({ shopId, actor, subscriptionId, version })).delivery?.id;
    await send(one.id, '2026-07');
    const ofOther = await send(other.id, '2026-07');
    const last = await send(one.id, '2026-07');
    const newer = await send(one.id, '2026-10');
    const found = await list(shopId, '2026-07');
    expect(found.map(({ id }) => id)).toEqual([last, ofOther]);
    expect(found).toMatchObject([
      { subscriptionId: one.id, test: true, apiVersion: '2026-07' },
      { subscriptionId: other.id, test: true, apiVersion: '2026-07' },
    ]);
    expect((await list(shopId, '2026-10')).map(({ id }) => id)).toEqual([newer]);
    expect(found.map(({ subscriptionId }) => subscriptionId)).not.toContain(untested.id);
    await until(async (see) => {
      const [, { attempts = [] } = {}] = await list(shopId, '2026-07');
      return see(attempts.at(-1)?.error) === 'connection refused';
    });
  });

  test('are not those of real events, of deleted webhooks, and of another shop', async () => {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
    expect(await list(shopId, '2026-10')).toEqual([]);
    await webhooks.client.sendTest({ shopId, actor, subscriptionId });
    expect(await list(shopId, '2026-10')).toHaveLength(1);
    expect(await list(newShop(), '2026-10')).toEqual([]);
    await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId });
    expect(await list(shopId, '2026-10')).toEqual([]);
  });

  test.each(['', 'unstable', '2026-10-01'])('need a version: %p is none', async (version) => {
    const refused = { code: Code.InvalidArgument, field: 'version' };
    expect(await refusal(list(newShop(), version))).toMatchObject(refused);
  });
});

describe('counts by hour', () => {
  test('have every hour, also without deliveries', async () => {
    const shopId = newShop();
    const { hours } = await webhooks.client.getDeliveryStats({ shopId, actor });
    expect(hours).toHaveLength(24);
    expect(
      hours.every(({ delivered, failed, waiting }) => delivered + failed + waiting === 0),
    ).toBe(true);
  });

  test('know no subscription of another shop', async () => {
    const { id: subscriptionId } = await webhooks.subscribe({ shopId: newShop(), url });
    const call = webhooks.client.getDeliveryStats({ shopId: newShop(), actor, subscriptionId });
    expect(await refusal(call)).toMatchObject({ code: Code.NotFound });
  });

  test.each([-1, 169])('are refused for %s hours', async (hours) => {
    const call = webhooks.client.getDeliveryStats({ shopId: newShop(), actor, hours });
    expect(await refusal(call)).toMatchObject({ code: Code.InvalidArgument, field: 'hours' });
  });
});
