import { timestampDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DeliveryState, SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { startReceiver } from '../../test/kit/webhooks/receiver.ts';
import { runWebhooks, type WebhooksUnderTest } from '../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../contract/sample-event.ts';
import { delivers } from '../contract/topics/topics.ts';
import { TOPICS, TRIGGERS } from '../contract/vocabulary.ts';

describe('the service', () => {
  let webhooks: WebhooksUnderTest;
  const today = new Date('2026-11-21T00:00:00Z');

  beforeAll(async () => {
    webhooks = await runWebhooks({ today: () => today });
  });
  afterAll(() => webhooks.stop());

  const url = 'https://partner.example.com/hooks';
  const fields = { topic: 'return', trigger: 'return.closed', url };

  describe('createSubscription', () => {
    test('returns the subscription, active, with its secret', async () => {
      const shopId = newShop();
      const answer = await webhooks.client.createSubscription({ shopId, actor, ...fields });
      expect(answer.subscription).toMatchObject({
        ...fields,
        status: SubscriptionStatus.ACTIVE,
        delivers: true,
        inactiveReason: '',
      });
      expect(answer.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
      const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
      expect(subscriptions).toEqual([answer.subscription]);
    });

    test('returns the payload version of the shop, and so does an update', async () => {
      const shopId = newShop();
      const of = { shopId, actor };
      const { subscription, payloadVersion } = await webhooks.client.createSubscription({
        ...of,
        ...fields,
      });
      expect(payloadVersion).toBe('2026-10');
      await webhooks.client.setPayloadVersion({ ...of, version: '2026-07' });
      const change = { ...of, subscriptionId: subscription?.id ?? 0n, topic: 'label' };
      expect((await webhooks.client.updateSubscription(change)).payloadVersion).toBe('2026-07');
    });

    test('stores the secret encrypted', async () => {
      const shopId = newShop();
      const { secret } = await webhooks.subscribe({ shopId, url });
      const { rows } = await webhooks.db.pool.query<{ sealed: Buffer }>(
        'select sealed from secrets where shop_id = $1',
        [shopId],
      );
      expect(rows).toHaveLength(1);
      expect(rows[0]?.sealed.toString('latin1')).not.toContain(secret.slice(6));
    });

    test('stores every pair of topic and trigger, and returns which deliver', async () => {
      // A shop for each topic, because a shop may have 100 subscriptions.
      for (const topic of TOPICS) {
        const shopId = newShop();
        for (const trigger of TRIGGERS)
          await webhooks.client.createSubscription({ shopId, actor, url, topic, trigger });
        const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
        expect(subscriptions).toMatchObject(
          TRIGGERS.map((trigger) => ({ topic, trigger, delivers: delivers(topic, trigger) })),
        );
        const ids = subscriptions.map((one) => one.id);
        expect(ids).toEqual(ids.toSorted((a, b) => (a < b ? -1 : 1)));
      }
    });

    test.each([
      [{ topic: 'returns' }, 'topic'],
      [{ trigger: 'return.opened' }, 'trigger'],
      [{ status: 9 as SubscriptionStatus }, 'status'],
    ])('refuses %j', async (change, field) => {
      const call = webhooks.client.createSubscription({
        shopId: newShop(),
        actor,
        ...fields,
        ...change,
      });
      expect(await refusal(call)).toEqual({
        code: Code.InvalidArgument,
        reason: 'INVALID_FIELD',
        field,
      });
    });

    test('rejects an address that is not allowed, after all other checks', async () => {
      const call = (change: object) =>
        refusal(
          webhooks.client.createSubscription({ shopId: newShop(), actor, ...fields, ...change }),
        );
      const refused = { code: Code.InvalidArgument, reason: 'WEBHOOK_URL_REFUSED', field: 'url' };
      expect(await call({ url: 'http://10.0.0.1/' })).toEqual(refused);
      expect(await call({ url: '' })).toEqual(refused);
      expect(await call({ url: 'http://10.0.0.1/', topic: 'x' })).toMatchObject({ field: 'topic' });
    });

    test('stops at 100 per shop, also with parallel calls', async () => {
      const shopId = newShop();
      let domains = 0;
      const call = () => {
        domains += 1;
        const url = `https://partner-${domains}.com/`;
        return webhooks.client.createSubscription({ shopId, actor, ...fields, url });
      };
      // In rounds, so that none waits longer than a call may.
      const results: PromiseSettledResult<unknown>[] = [];
      while (results.length < 104) {
        results.push(...(await Promise.allSettled(Array.from({ length: 13 }, call))));
      }
      expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(100);
      expect(await refusal(call())).toMatchObject({
        code: Code.ResourceExhausted,
        reason: 'QUOTA_EXCEEDED',
      });
    });
  });

  describe('updateSubscription, deleteSubscription', () => {
    test('check the address before the id, and know no data of other shops', async () => {
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
      const other = { shopId: newShop(), actor, subscriptionId };
      const missing = { code: Code.NotFound, reason: 'SUBSCRIPTION_NOT_FOUND' };
      expect(
        await refusal(
          webhooks.client.updateSubscription({ ...other, ...fields, url: 'https://10.0.0.1/' }),
        ),
      ).toMatchObject({ reason: 'WEBHOOK_URL_REFUSED' });
      expect(
        await refusal(webhooks.client.updateSubscription({ ...other, ...fields })),
      ).toMatchObject(missing);
      expect(await refusal(webhooks.client.deleteSubscription(other))).toMatchObject(missing);
      expect(await refusal(webhooks.client.revealSecret(other))).toMatchObject(missing);
      expect(await refusal(webhooks.client.rotateSecret(other))).toMatchObject(missing);
      expect(await refusal(webhooks.client.endFormerSecrets(other))).toMatchObject(missing);
      expect(await refusal(webhooks.client.sendTest(other))).toMatchObject(missing);
      expect(
        (await webhooks.client.listSubscriptions({ shopId, actor })).subscriptions,
      ).toHaveLength(1);
    });

    test('keep a status that the request does not contain', async () => {
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
      const update = (status?: SubscriptionStatus) =>
        webhooks.client.updateSubscription({
          shopId,
          actor,
          subscriptionId,
          ...fields,
          ...(status !== undefined && { status }),
        });
      expect((await update(SubscriptionStatus.INACTIVE)).subscription?.status).toBe(
        SubscriptionStatus.INACTIVE,
      );
      expect((await update()).subscription?.status).toBe(SubscriptionStatus.INACTIVE);
      expect((await update(SubscriptionStatus.ACTIVE)).subscription?.status).toBe(
        SubscriptionStatus.ACTIVE,
      );
    });
  });

  describe('the payload version', () => {
    test('is the newest active one until it is set', async () => {
      const shopId = newShop();
      const get = async () => (await webhooks.client.getPayloadVersion({ shopId, actor })).version;
      expect(await get()).toBe('2026-10');
      await webhooks.client.setPayloadVersion({ shopId, actor, version: '2026-07' });
      expect(await get()).toBe('2026-07');
    });

    test('is the one that shapes payloads after the sunset of the chosen one', async () => {
      const shopId = newShop();
      await webhooks.client.setPayloadVersion({ shopId, actor, version: '2026-07' });
      const today = () => new Date('2027-10-02T00:00:00Z');
      const later = await runWebhooks({ db: webhooks.db, today });
      const { version } = await later.client.getPayloadVersion({ shopId, actor });
      // The version that a user saw is the one that was served.
      const set = { shopId, actor, version, expectedVersion: version };
      const { previous } = await later.client.setPayloadVersion(set);
      await later.stop();
      expect([version, previous]).toEqual(['2026-10', '2026-07']);
    });

    test.each(['unstable', '2026-08', '2027-01', 'v1', ''])('is not %j', async (version) => {
      const call = webhooks.client.setPayloadVersion({ shopId: newShop(), actor, version });
      expect(await refusal(call)).toMatchObject({ code: Code.InvalidArgument, field: 'version' });
    });
  });

  describe('sendTest', () => {
    test('rejects triggers that the topic does not deliver, and an inactive subscription', async () => {
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url, topic: 'label' });
      const send = (trigger: string) =>
        refusal(webhooks.client.sendTest({ shopId, actor, subscriptionId, trigger }));
      const refused = { code: Code.InvalidArgument, field: 'trigger' };
      expect(await send('return.closed')).toMatchObject(refused);
      expect(await send('return.opened')).toMatchObject(refused);
      expect(await send('')).toMatchObject(refused);
      await webhooks.client.updateSubscription({
        shopId,
        actor,
        subscriptionId,
        ...fields,
        status: SubscriptionStatus.INACTIVE,
      });
      expect(await send('return.closed')).toMatchObject({ code: Code.FailedPrecondition });
    });
  });

  describe('listDeliveries', () => {
    test('pages from the newest, and filters', async () => {
      const shopId = newShop();
      const receiver = await startReceiver();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
      const events = Array.from({ length: 5 }, () => sampleEvent('return.closed', shopId));
      for (const event of events) await webhooks.publish(event);
      await until(() => receiver.received.length === 5);
      await until(async () =>
        (await webhooks.deliveries(shopId)).every((one) => one.state === DeliveryState.DELIVERED),
      );
      const seen: string[] = [];
      let cursor = '';
      do {
        const page = await webhooks.client.listDeliveries({ shopId, actor, pageSize: 2, cursor });
        expect(page.deliveries.every((one) => one.body.length === 0)).toBe(true);
        seen.push(...page.deliveries.map((one) => one.eventId));
        cursor = page.nextCursor;
      } while (cursor !== '');
      expect(seen).toEqual(events.map((event) => event.eventId).toReversed());
      const { nextCursor } = await webhooks.client.listDeliveries({ shopId, actor, pageSize: 2 });
      const other = { shopId, actor, trigger: 'return.closed', cursor: nextCursor };
      expect(await refusal(webhooks.client.listDeliveries(other))).toMatchObject({
        code: Code.InvalidArgument,
        field: 'cursor',
      });

      const count = async (filter: object) =>
        (await webhooks.client.listDeliveries({ shopId, actor, ...filter })).deliveries.length;
      expect(await count({ subscriptionId })).toBe(5);
      expect(await count({ states: [DeliveryState.DELIVERED] })).toBe(5);
      expect(await count({ states: [DeliveryState.WAITING, DeliveryState.HELD] })).toBe(0);
      expect(await count({ trigger: 'return.created' })).toBe(0);
      expect(await count({ returnId: events[0]?.returnId })).toBe(5);
      expect(await count({ shopId: newShop() })).toBe(0);
      await receiver.stop();
    });

    test.each([
      [{ pageSize: 201 }, 'page_size'],
      [{ pageSize: -1 }, 'page_size'],
      [{ cursor: '?' }, 'cursor'],
      [{ trigger: 'x' }, 'trigger'],
      [{ states: [DeliveryState.UNSPECIFIED] }, 'states'],
    ])('refuses %j', async (change, field) => {
      const call = webhooks.client.listDeliveries({ shopId: newShop(), actor, ...change });
      expect(await refusal(call)).toMatchObject({ code: Code.InvalidArgument, field });
    });
  });
});

describe('what the portal shows', () => {
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
    // The repeat of a call whose answer was lost.
    expect(await set('2026-07', '2026-10')).toMatchObject({
      version: '2026-07',
      previous: '2026-07',
    });
    expect(await refusal(set('2026-10', '2026-04'))).toMatchObject(refused);
    await set('2026-10', '2026-07');
    expect((await webhooks.client.getPayloadVersion({ shopId, actor })).version).toBe('2026-10');
  });

  test('a webhook says when its newest secret was made', async () => {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url });
    const about = { shopId, actor, subscriptionId };
    for (const overlapHours of [2, 0]) {
      const { secret } = await webhooks.client.rotateSecret({ ...about, overlapHours });
      const { subscription } = await webhooks.client.getSubscription(about);
      expect(subscription?.newestSecretAt).toEqual(secret?.createdAt);
    }
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

    test.each([-1, 169])('are refused for %s hours', async (hours) => {
      const call = webhooks.client.getDeliveryStats({ shopId: newShop(), actor, hours });
      expect(await refusal(call)).toMatchObject({ code: Code.InvalidArgument, field: 'hours' });
    });
  });
});
