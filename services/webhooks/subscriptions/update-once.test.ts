import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

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
