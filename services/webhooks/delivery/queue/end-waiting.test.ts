import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  DeliveryState,
  SubscriptionStatus,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';

let webhooks: WebhooksUnderTest;
let receiver: Receiver;

beforeAll(async () => {
  webhooks = await runWebhooks();
  receiver = await startReceiver();
  receiver.answer = (response) => void response.writeHead(500).end();
});
afterAll(async () => {
  await webhooks.stop();
  await receiver.stop();
});

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
      Array.from({ length: 20 }, () => webhooks.db.pool.query('select pg_stat_force_next_flush()')),
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

describe('a long backlog', () => {
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
