import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  DeliveryState,
  SubscriptionStatus,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';

let webhooks: WebhooksUnderTest;

beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

describe('changes of a busy subscription', () => {
  test('never leave a due delivery in the queue of an inactive one, and fail no call', async () => {
    const receiver = await startReceiver();
    receiver.answer = (response, _, nth) =>
      void response.writeHead(nth % 3 === 0 ? 500 : 200).end();
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
    const set = (status: SubscriptionStatus, path: string) =>
      webhooks.client.updateSubscription({
        shopId,
        actor,
        subscriptionId,
        topic: 'return',
        trigger: 'return.closed',
        url: `${receiver.url}${path}`,
        status,
      });
    const publishing = (async () => {
      for (let n = 0; n < 30; n += 1) {
        await webhooks.publish(
          sampleEvent('return.closed', shopId),
          sampleEvent('return.closed', shopId),
        );
      }
    })();
    for (let n = 0; n < 15; n += 1) {
      await set(SubscriptionStatus.INACTIVE, '/a');
      const inactive = await webhooks.deliveries(shopId);
      expect(inactive.filter((one) => one.state === DeliveryState.WAITING)).toEqual([]);
      await set(SubscriptionStatus.ACTIVE, n % 2 ? '/b' : '');
    }
    await publishing;
    const allArrived = async () => {
      webhooks.advance(40);
      const rows = await webhooks.deliveries(shopId);
      return rows.every((one) => one.state === DeliveryState.DELIVERED);
    };
    await until(allArrived);
    const ids = (await webhooks.deliveries(shopId)).map((one) => one.id);
    const arrived = new Set(receiver.received.map((one) => one.headers['webhook-id']));
    expect(ids.every((id) => arrived.has(id))).toBe(true);
    await receiver.stop();
  });
});
