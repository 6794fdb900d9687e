import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { WebhooksService } from '../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { DeliveryState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { FAKE, NOW, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
let developer: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  developer = await portalPerson(under, { shopId: 1n, role: 'developer' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const webhooks = () => developer.client(WebhooksService);
const key = (): string => crypto.randomUUID();
const webhookId = String(FAKE.webhook);

describe('deliveries and webhooks in the portal', () => {
  test('count the deliveries of a filter, also of a replay', async () => {
    under.services.webhooks.listDeliveries = ({ includeCount, replayId, states }) => {
      expect({ includeCount, replayId, states }).toEqual({
        includeCount: true,
        replayId: 7n,
        states: [DeliveryState.EXHAUSTED],
      });
      const counted = { count: 3, more: true, oldestAt: NOW };
      return { count: { ...counted, states: [{ state: DeliveryState.EXHAUSTED, count: 3 }] } };
    };
    const { count } = await webhooks().listDeliveries({ replayId: '7', states: ['exhausted'] });
    expect(count).toMatchObject({
      count: 3,
      more: true,
      oldestAt: NOW,
      states: [{ state: 'exhausted', count: 3 }],
    });
  });

  test('of a replay from before they were stored are said to be not listed', async () => {
    under.services.webhooks.getReplay = ({ replayId: id }) => ({ replay: { id, unlisted: true } });
    const { replay } = await webhooks().getReplay({ replayId: '7' });
    expect(replay).toMatchObject({ id: '7', unlisted: true });
  });

  test('name the newest failure, and equal webhooks when they are created', async () => {
    const lastFailure = {
      deliveryId: FAKE.delivery,
      startedAt: NOW,
      status: 500,
      error: 'answered 500',
      url: 'https://example.com/hook',
      responseExcerpt: 'no such key',
    };
    under.services.webhooks.getSubscription = () => ({
      subscription: { ...sampleSubscription(), failures: 1, lastFailure },
    });
    const { webhook } = await webhooks().getWebhook({ webhookId });
    expect(webhook?.health?.lastFailure).toMatchObject(lastFailure);
    under.services.webhooks.createSubscription = () => ({
      subscription: sampleSubscription(),
      secret: 'whsec_x',
      equalSubscriptionIds: [12n],
    });
    const body = { topic: 'return', trigger: 'return.closed', url: lastFailure.url };
    const { equalWebhookIds } = await webhooks().createWebhook({ ...body, idempotencyKey: key() });
    expect(equalWebhookIds).toEqual(['12']);
  });
});
