import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  DeliveryState,
  SubscriptionStatus,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { endBacklog } from './end-waiting.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

describe('lifecycle', () => {
  let receiver: Receiver;
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  const DAY = 24 * 3_600;
  const CLOSED = { topic: 'return', trigger: 'return.closed' };

  /** A subscription whose first delivery failed once and waits for its next attempt. */
  async function withWaiting() {
    receiver.answer = (response) => void response.writeHead(500).end();
    const shopId = newShop();
    const { id, secret } = await webhooks.subscribe({ shopId, url: receiver.url });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
    receiver.answer = (response) => void response.writeHead(200).end();
    const set = (change: {
      url?: string;
      topic?: string;
      trigger?: string;
      status?: SubscriptionStatus;
    }) =>
      webhooks.client.updateSubscription({
        shopId,
        actor,
        subscriptionId: id,
        url: receiver.url,
        ...CLOSED,
        ...change,
      });
    const state = async () => (await webhooks.deliveries(shopId))[0]?.state;
    return { shopId, id, secret, set, state };
  }

  describe('an inactive subscription', () => {
    test('holds its deliveries, gets no new ones, and continues when it is active', async () => {
      const { shopId, set, state } = await withWaiting();
      await set({ status: SubscriptionStatus.INACTIVE });
      expect(await state()).toBe(DeliveryState.HELD);
      await webhooks.publish(sampleEvent('return.closed', shopId));
      expect(await webhooks.deliveries(shopId)).toHaveLength(1);
      webhooks.advance(60);
      await set({});
      expect(await state()).toBe(DeliveryState.HELD);
      expect(receiver.received).toHaveLength(1);
      await set({ status: SubscriptionStatus.ACTIVE });
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      expect(receiver.received).toHaveLength(2);
    });

    test('expires deliveries that were held for 30 days', async () => {
      const { shopId, set, state } = await withWaiting();
      await set({ status: SubscriptionStatus.INACTIVE });
      await endBacklog(webhooks.db.pool, 29 * DAY * 1_000);
      expect(await state()).toBe(DeliveryState.HELD);
      webhooks.advance(30 * DAY + 1);
      await until(async () => (await state()) === DeliveryState.EXPIRED);
      expect((await webhooks.deliveries(shopId))[0]?.finishedAt).toBeDefined();
      await until(async () => /^webhooks_expired_total\S* [1-9]/m.test(await webhooks.metrics()));
      await set({ status: SubscriptionStatus.ACTIVE });
      expect(receiver.received).toHaveLength(1);
    });

    test('expires overdue deliveries even when it is activated first', async () => {
      const { shopId, set, state } = await withWaiting();
      await set({ status: SubscriptionStatus.INACTIVE });
      await webhooks.db.pool.query(
        `update subscriptions set inactive_since = inactive_since - interval '31 days' where shop_id = $1`,
        [shopId],
      );
      await webhooks.db.pool.query(
        `update queue set queued_at = queued_at - interval '31 days' where shop_id = $1`,
        [shopId],
      );
      await set({ status: SubscriptionStatus.ACTIVE });
      webhooks.advance(0);
      await until(async () => (await state()) === DeliveryState.EXPIRED);
      expect(receiver.received).toHaveLength(1);
      await webhooks.publish(sampleEvent('return.closed', shopId));
      await until(() => receiver.received.length === 2);
    });
  });

  describe('an update', () => {
    test('sends waiting deliveries to the new address, with the same secret', async () => {
      const { set, state, shopId, secret, id } = await withWaiting();
      const elsewhere = await startReceiver();
      await set({ url: elsewhere.url });
      webhooks.advance(6);
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      expect(elsewhere.received).toHaveLength(1);
      expect(receiver.received).toHaveLength(1);
      const { secrets } = await webhooks.client.revealSecret({ shopId, actor, subscriptionId: id });
      expect(secrets.map((one) => one.value)).toEqual([secret]);
      await elsewhere.stop();
    });

    test('keeps fields that the request does not contain, even an address that would now be rejected', async () => {
      const shopId = newShop();
      const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
      const refused = 'https://10.0.0.1/';
      await webhooks.db.pool.query('update endpoints set url = $2 where shop_id = $1', [
        shopId,
        refused,
      ]);
      const change = (given: { trigger?: string; status?: SubscriptionStatus }) =>
        webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...given });
      await change({ trigger: 'return.created' });
      const status = SubscriptionStatus.INACTIVE;
      const { subscription } = await change({ status });
      expect(subscription).toMatchObject({
        topic: CLOSED.topic,
        trigger: 'return.created',
        url: refused,
        status,
      });
      expect(await refusal(change({ trigger: 'return.opened' }))).toMatchObject({
        field: 'trigger',
      });
    });

    test('of topic or trigger applies to later events only', async () => {
      const { shopId, set, state } = await withWaiting();
      await set({ topic: 'label', trigger: 'label.created' });
      webhooks.advance(6);
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      expect(receiver.received[1]?.headers['x-service-event']).toBe('return.closed');
      await webhooks.publish(
        sampleEvent('return.closed', shopId),
        sampleEvent('label.created', shopId),
      );
      await until(() => receiver.received.length === 3);
      expect(JSON.parse(receiver.received[2]?.body ?? '')).toMatchObject({ topic: 'label' });
    });
  });

  describe('a deletion', () => {
    test('drops waiting deliveries and keeps the log', async () => {
      const { shopId, id, state } = await withWaiting();
      await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId: id });
      expect(await state()).toBe(DeliveryState.DROPPED);
      webhooks.advance(60);
      const [logged] = await webhooks.deliveries(shopId);
      expect(logged?.attempts).toHaveLength(1);
      expect((await webhooks.client.listSubscriptions({ shopId, actor })).subscriptions).toEqual(
        [],
      );
      await webhooks.publish(sampleEvent('return.closed', shopId));
      expect(await webhooks.deliveries(shopId)).toHaveLength(1);
      const replay = webhooks.client.replayDelivery({
        shopId,
        actor,
        deliveryId: logged?.id ?? '',
      });
      expect(await refusal(replay)).toMatchObject({ code: Code.FailedPrecondition });
      const again = webhooks.client.deleteSubscription({ shopId, actor, subscriptionId: id });
      expect(await refusal(again)).toMatchObject({ code: Code.NotFound });
      expect(receiver.received).toHaveLength(1);
    });
  });

  describe('a removed payload', () => {
    test('drops the delivery without a failure of the subscription', async () => {
      const { shopId, state } = await withWaiting();
      const failures = async () => {
        const { rows } = await webhooks.db.pool.query<{ failures: number }>(
          'select failures from subscriptions where shop_id = $1',
          [shopId],
        );
        return rows[0]?.failures;
      };
      expect(await failures()).toBe(1);
      await webhooks.db.pool.query('update payloads set body = null where shop_id = $1', [shopId]);
      webhooks.advance(6);
      await until(async () => (await state()) === DeliveryState.DROPPED);
      const [dropped] = await webhooks.deliveries(shopId);
      expect(dropped?.nextAttemptAt).toBeUndefined();
      expect(dropped?.attempts).toHaveLength(1);
      expect(await failures()).toBe(1);
      expect(receiver.received).toHaveLength(1);
    });
  });

  describe('a replay', () => {
    test('is rejected while the delivery waits, and for unknown deliveries and those of another shop', async () => {
      const { shopId } = await withWaiting();
      const [waiting] = await webhooks.deliveries(shopId);
      const replay = (shop: bigint, deliveryId: string) =>
        refusal(webhooks.client.replayDelivery({ shopId: shop, actor, deliveryId }));
      expect(await replay(shopId, waiting?.id ?? '')).toMatchObject({
        code: Code.FailedPrecondition,
        reason: 'STATE_FORBIDS',
      });
      const missing = { code: Code.NotFound, reason: 'DELIVERY_NOT_FOUND' };
      expect(await replay(newShop(), waiting?.id ?? '')).toMatchObject(missing);
      expect(await replay(shopId, 'msg_x')).toMatchObject(missing);
    });

    test('with a key is started once, however often it is requested and however it ended', async () => {
      const { shopId, state } = await withWaiting();
      webhooks.advance(6);
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      const [delivered] = await webhooks.deliveries(shopId);
      const deliveryId = delivered?.id ?? '';
      const replay = (idempotencyKey: string) =>
        webhooks.client.replayDelivery({ shopId, actor, deliveryId, idempotencyKey });
      await Promise.all([replay('one'), replay('one'), replay('one')]);
      await until(() => receiver.received.length === 3);
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      expect((await replay('one')).delivery?.state).toBe(DeliveryState.DELIVERED);
      await replay('two');
      await until(() => receiver.received.length === 4);
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      expect(receiver.received).toHaveLength(4);
      expect(await refusal(replay('x'.repeat(201)))).toMatchObject({ field: 'idempotency_key' });
    });

    test('for an inactive subscription is held', async () => {
      const { shopId, set, state } = await withWaiting();
      webhooks.advance(6);
      await until(async () => (await state()) === DeliveryState.DELIVERED);
      await set({ status: SubscriptionStatus.INACTIVE });
      const [delivered] = await webhooks.deliveries(shopId);
      await webhooks.client.replayDelivery({ shopId, actor, deliveryId: delivered?.id ?? '' });
      expect(await state()).toBe(DeliveryState.HELD);
      await set({ status: SubscriptionStatus.ACTIVE });
      await until(() => receiver.received.length === 3);
      expect(receiver.received[2]?.headers['webhook-id']).toBe(delivered?.id);
    });
  });
});

describe('a long backlog', () => {
  let receiver: Receiver;

  beforeAll(async () => {
    receiver = await startReceiver();
    receiver.answer = (response) => void response.writeHead(500).end();
  });
  afterAll(() => receiver.stop());

  const WAITING = 2_500;
  const FIELDS = { topic: 'return', trigger: 'return.closed' };

  /** A subscription with a long queue that is due in an hour. */
  async function withBacklog() {
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({
      shopId,
      url: `${receiver.url}/${shopId}`,
    });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
    await webhooks.db.pool.query(
      `with one as (
       select d.*, q.bytes from deliveries d join queue q on q.shop_id = d.shop_id and q.id = d.id where d.shop_id = $1
     ), more as (
       insert into deliveries (shop_id, id, subscription_id, payload_id, trigger, topic)
       select shop_id, overlay(gen_random_uuid()::text placing left(id::text, 13) from 1)::uuid, subscription_id,
              payload_id, trigger, topic
         from one, generate_series(1, $2)
       returning shop_id, id, subscription_id, payload_id
     )
     insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at)
     select m.shop_id, m.subscription_id, m.id, m.payload_id, one.bytes, true, now() + interval '1 hour', now()
       from more m, one`,
      [shopId, WAITING],
    );
    const set = (change: { url?: string; status?: SubscriptionStatus }) =>
      webhooks.client.updateSubscription({
        shopId,
        actor,
        subscriptionId,
        url: `${receiver.url}/${shopId}`,
        ...FIELDS,
        ...change,
      });
    return { shopId, subscriptionId, set };
  }

  async function counts(shopId: bigint) {
    const { rows } = await webhooks.db.pool.query<{
      queued: number;
      ended: string | null;
      n: number;
    }>(
      `select ended, count(*)::int as n, (select count(*)::int from queue where shop_id = $1) as queued
       from deliveries where shop_id = $1 group by ended`,
      [shopId],
    );
    return {
      queued: rows[0]?.queued,
      byEnd: Object.fromEntries(rows.map((row) => [`${row.ended}`, row.n])),
    };
  }

  /** Rows that a call wrote. Earlier writes are flushed to the statistics first. */
  async function written(call: () => Promise<unknown>): Promise<number> {
    const read = async () => {
      await Promise.all(
        Array.from({ length: 20 }, () =>
          webhooks.db.pool.query('select pg_stat_force_next_flush()'),
        ),
      );
      const { rows } = await webhooks.db.pool.query<{ rows: number }>(
        `select sum(n_tup_upd + n_tup_ins + n_tup_del)::int as rows from pg_stat_user_tables
        where relname = 'queue' or relname ~ '^deliveries'`,
      );
      return rows[0]?.rows ?? 0;
    };
    const before = await read();
    await call();
    return (await read()) - before;
  }

  test('is held and released, moved and deleted by changes of one row', async () => {
    const { shopId, subscriptionId, set } = await withBacklog();
    const states = async () =>
      new Set((await webhooks.deliveries(shopId)).map((delivery) => delivery.state));
    expect(await states()).toEqual(new Set([DeliveryState.WAITING]));
    const touched = await written(async () => {
      await set({ status: SubscriptionStatus.INACTIVE });
      expect(await states()).toEqual(new Set([DeliveryState.HELD]));
      await set({ status: SubscriptionStatus.ACTIVE });
      await set({ url: `${receiver.url}/moved` });
      expect(await states()).toEqual(new Set([DeliveryState.WAITING]));
    });
    expect(touched).toBeLessThan(100);
    await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId });
    expect(await states()).toEqual(new Set([DeliveryState.DROPPED]));
    // The deliveries end later, one batch at a time.
    await until(async () => (await counts(shopId)).byEnd.dropped === WAITING + 1);
    expect((await counts(shopId)).queued ?? 0).toBe(0);
  });

  test('expires one batch at a time', async () => {
    const { shopId, set } = await withBacklog();
    await set({ status: SubscriptionStatus.INACTIVE });
    webhooks.advance(31 * 24 * 3_600);
    await until(async () => (await counts(shopId)).byEnd.expired === WAITING + 1);
    expect((await counts(shopId)).queued ?? 0).toBe(0);
    expect(await webhooks.metrics()).toMatch(/^webhooks_expired_total\S* [1-9]/m);
  });
});
