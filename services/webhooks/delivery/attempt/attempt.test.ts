import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { DeliveryState } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

describe('sandbox', () => {
  let receiver: Receiver;
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  /** A shop with one subscription. The path of its url is the id of the shop. */
  async function newShopWith(o: { readonly sandbox: boolean }) {
    const shopId = newShop();
    if (o.sandbox) await set(shopId, true);
    const url = `${receiver.url}/${shopId}`;
    return { shopId, ...(await webhooks.subscribe({ shopId, url })) };
  }

  const set = (shopId: bigint, sandbox: boolean) =>
    webhooks.client.setSandbox({ shopId, actor, sandbox });

  /** The mark of each request that a shop's subscription got, in order. */
  const marksOf = (shopId: bigint) =>
    receiver.received
      .filter(({ path }) => path.endsWith(`/${shopId}`))
      .map(({ headers }) => headers['x-service-environment']);

  test('every attempt for a sandbox shop says so, and none for the live shop beside it', async () => {
    const sandbox = await newShopWith({ sandbox: true });
    const live = await newShopWith({ sandbox: false });
    const all = [sandbox, live];
    const bothHave = (count: number) =>
      until(() => all.every(({ shopId }) => marksOf(shopId).length === count));

    // First attempts from memory, of which each fails, and their retries from the table.
    receiver.answer = (response, _, nth) => void response.writeHead(nth <= 2 ? 500 : 204).end();
    await webhooks.publish(...all.map(({ shopId }) => sampleEvent('return.closed', shopId)));
    await bothHave(1);
    await until(async () => {
      const [one] = await webhooks.deliveries(sandbox.shopId);
      const [other] = await webhooks.deliveries(live.shopId);
      return one?.attempts.length === 1 && other?.attempts.length === 1;
    });
    webhooks.advance(6);
    await bothHave(2);
    for (const { shopId, id: subscriptionId } of all)
      await webhooks.client.sendTest({ shopId, actor, subscriptionId });
    await bothHave(3);
    for (const { shopId } of all) {
      const [delivery] = await until(async () => {
        const done = await webhooks.deliveries(shopId);
        return done.every(({ attempts }) => attempts.at(-1)?.status === 204) && done;
      });
      const deliveryId = delivery?.id ?? '';
      await webhooks.client.replayDelivery({ shopId, actor, deliveryId });
    }
    await bothHave(4);

    expect(marksOf(sandbox.shopId)).toEqual(Array(4).fill('sandbox'));
    expect(marksOf(live.shopId)).toEqual(Array(4).fill(undefined));
  });

  test('the mark changes neither body nor signature', async () => {
    const { shopId, secret } = await newShopWith({ sandbox: true });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(() => receiver.received.length === 1);
    const [{ body, headers } = { body: '', headers: {} }] = receiver.received;
    const signed = Object.fromEntries(
      Object.entries(headers).filter(([name]) => name.startsWith('webhook-')),
    );
    const verified = new Webhook(secret).verify(body, signed as Record<string, string>);
    expect(JSON.stringify(verified)).not.toContain('sandbox');
  });

  test('a shop that becomes live loses the mark; each call may be repeated', async () => {
    const { shopId } = await newShopWith({ sandbox: true });
    await set(shopId, true);
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(() => marksOf(shopId).length === 1);
    await set(shopId, false);
    await set(shopId, false);
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(() => marksOf(shopId).length === 2);
    expect(marksOf(shopId)).toEqual(['sandbox', undefined]);
  });
});

describe('test event', () => {
  let receiver: Receiver;
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  async function newSubscription() {
    const shopId = newShop();
    const { id: subscriptionId, secret } = await webhooks.subscribe({ shopId, url: receiver.url });
    return { shopId, subscriptionId, secret };
  }

  /** The mark of each request that arrived, in order. */
  const marks = () => receiver.received.map(({ headers }) => headers['x-service-test']);

  /** Waits for the recorded result of the last attempt of each delivery of the shop. */
  const allHave = (shopId: bigint, state: DeliveryState) =>
    until(async () => {
      const deliveries = await webhooks.deliveries(shopId);
      return deliveries.every((one) => one.state === state) && deliveries;
    });

  test('every attempt of a test event says so: the first, its retry and its replay', async () => {
    const { shopId, subscriptionId } = await newSubscription();
    receiver.answer = (response, _, nth) => void response.writeHead(nth === 1 ? 500 : 204).end();
    const { delivery } = await webhooks.client.sendTest({ shopId, actor, subscriptionId });
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
    webhooks.advance(6);
    await allHave(shopId, DeliveryState.DELIVERED);
    await webhooks.client.replayDelivery({ shopId, actor, deliveryId: delivery?.id ?? '' });
    await until(() => receiver.received.length === 3);
    expect(marks()).toEqual(['true', 'true', 'true']);
  });

  test('no attempt of a real event says so: neither from memory nor from the table', async () => {
    const { shopId } = await newSubscription();
    receiver.answer = (response, _, nth) => void response.writeHead(nth === 1 ? 500 : 204).end();
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
    webhooks.advance(6);
    const [delivery] = await allHave(shopId, DeliveryState.DELIVERED);
    await webhooks.client.replayDelivery({ shopId, actor, deliveryId: delivery?.id ?? '' });
    await until(() => receiver.received.length === 3);
    expect(marks()).toEqual([undefined, undefined, undefined]);
  });

  test('the mark changes neither the body nor what is signed', async () => {
    const { shopId, subscriptionId, secret } = await newSubscription();
    await webhooks.client.sendTest({ shopId, actor, subscriptionId });
    await until(() => receiver.received.length === 1);
    const [{ body, headers } = { body: '', headers: {} }] = receiver.received;
    const signed = Object.fromEntries(
      Object.entries(headers).filter(([name]) => name.startsWith('webhook-')),
    );
    const verified = new Webhook(secret).verify(body, signed as Record<string, string>) as object;
    expect(Object.keys(verified)).not.toContain('test');
  });
});
