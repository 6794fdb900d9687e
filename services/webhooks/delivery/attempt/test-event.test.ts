import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
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
let receiver: Receiver;

beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());
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
