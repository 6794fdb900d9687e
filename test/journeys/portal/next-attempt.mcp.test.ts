import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from '@jest/globals';
import { receiverForTests } from '../../kit/during.ts';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// When a delivery is tried next, while its webhook cannot be sent anything.

const developer = userForTests('developer');
const broken = receiverForTests();
beforeAll(() => {
  broken.answer = (response) => void response.writeHead(500).end();
});

const call = <T>(method: string, body: object) =>
  callPortal<T>(developer.page, `WebhooksService/${method}`, body);

const sendTest = (webhookId: string) =>
  call('SendTest', { subscriptionId: webhookId, idempotencyKey: randomUUID() });

/** Enough failures of enough deliveries, over more than five seconds. */
async function untilPaused(webhookId: string): Promise<void> {
  const tests = 6;
  const before = broken.received.length;
  for (let sent = 0; sent < tests; sent += 1) await sendTest(webhookId);
  await until(() => broken.received.length >= before + tests);
  await until(async () => {
    const { deliveries } = await call<{ deliveries: { attempts?: unknown[] }[] }>(
      'ListDeliveries',
      { subscriptionId: webhookId },
    );
    // A slow machine may have made the second attempt of the first delivery already.
    return deliveries.every(({ attempts = [] }) => attempts.length > 0);
  });
  await developer.stack.control('POST', '/clock/webhooks', { advance_s: 7 });
  await until(async () => {
    const { subscription } = await call<{ subscription: { health: { pausedSince?: string } } }>(
      'GetSubscription',
      { subscriptionId: webhookId },
    );
    return subscription.health.pausedSince !== undefined;
  });
}

test('a delivery of a webhook that fails is paused, and one of an inactive webhook waits for it', async () => {
  const { page } = developer;
  const webhookId = await addWebhook(page, {
    url: new URL(`/${randomUUID()}`, broken.url).href,
  });
  await untilPaused(webhookId);
  await sendTest(webhookId);
  for (const path of [`/webhooks/${webhookId}`, `/deliveries?webhook=${webhookId}`]) {
    await developer.open(path);
    // Its own time has come, and it is not sent.
    const newest = page.getByRole('table', { name: 'Deliveries' }).getByRole('row').nth(1);
    await newest.getByText('paused: the address fails').waitFor();
    await newest.getByText(/^one delivery is tried /).waitFor();
    expect(await developer.findings()).toEqual([]);
  }
  await call('UpdateSubscription', {
    subscriptionId: webhookId,
    status: 'SUBSCRIPTION_STATUS_INACTIVE',
    idempotencyKey: randomUUID(),
  });
  await developer.open(`/deliveries?webhook=${webhookId}`);
  const rows = page.getByRole('table', { name: 'Deliveries' }).getByRole('row');
  await rows.nth(1).getByText('when the webhook is active again').waitFor();
  expect(await page.getByText(/^due$/).count()).toBe(0);
  expect(await developer.findings()).toEqual([]);
  await deleteWebhooks(page, webhookId);
});
