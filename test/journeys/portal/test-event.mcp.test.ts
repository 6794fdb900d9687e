import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from '@jest/globals';
import type { Locator } from 'playwright-core';
import { receiverForTests } from '../../kit/during.ts';
import { addWebhook, deleteWebhooks } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';

// The page of a webhook says what became of a test event that was sent from it.

const developer = userForTests('developer');
const receiver = receiverForTests();
let webhookId: string;
beforeAll(async () => {
  const url = new URL(`/${randomUUID()}`, receiver.url).href;
  webhookId = await addWebhook(developer.page, { url });
});
developer.atEnd(async () => webhookId && deleteWebhooks(developer.page, webhookId));

/** Sends a test event that the receiver answers with this status. Returns the message about it. */
async function sendTest(status: number): Promise<Locator> {
  receiver.answer = (response) => void response.writeHead(status).end();
  const { page } = developer;
  await developer.open(`/webhooks/${webhookId}`);
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByRole('button', { name: 'Send the test' }).click();
  const notice = page.getByRole('status').filter({ hasText: 'An example of return.closed' });
  await notice.getByText(new RegExp(`accepted \\(HTTP ${status}\\) on `)).waitFor();
  // The reader is where they were, and the list below has the test.
  expect(new URL(page.url()).pathname).toBe(`/portal/webhooks/${webhookId}`);
  const row = page.getByRole('table', { name: 'Deliveries' }).getByRole('row').nth(1);
  await row.getByText(`HTTP ${status}`).waitFor();
  return notice;
}

test('a test that the receiver accepts', async () => {
  const { page } = developer;
  const notice = await sendTest(200);
  await notice.getByText('The receiver accepted the test').waitFor();
  expect(await developer.findings()).toEqual([]);
  await notice.getByRole('link', { name: 'See the delivery' }).click();
  await page.getByRole('heading', { name: 'Delivery of return.closed' }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { name: `Webhook ${webhookId}` }).waitFor();
  expect(await notice.count()).toBe(0);
});

test('a test that the receiver rejects: the warning of the webhook below the message says why, once', async () => {
  const { page } = developer;
  const notice = await sendTest(404);
  await notice.getByText('The receiver did not accept the test').waitFor();
  const advice = 'Check the address of the webhook.';
  const warning = page.getByRole('alert').filter({ hasText: 'does not accept requests' });
  await warning.getByText('this address does not exist (404)').waitFor();
  await warning.getByText(advice).waitFor();
  await notice.getByText('The message below says why, and what to check.').waitFor();
  expect(await notice.getByText(advice).count()).toBe(0);
  expect(await developer.findings()).toEqual([]);
  const [above, below] = [await notice.boundingBox(), await warning.boundingBox()];
  expect((above?.y ?? 0) + (above?.height ?? 0)).toBeLessThan(below?.y ?? 0);

  // Without the warning, such as after a change of the address, the message says why itself.
  await page.route(/WebhooksService\/GetSubscription$/, async (route) => {
    const response = await route.fetch();
    const { subscription } = await response.json();
    await route.fulfill({ response, json: { subscription: { ...subscription, failures: 0 } } });
  });
  await notice.getByText(`this address does not exist (404). ${advice}`).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

test('its message is closed', async () => {
  const { page } = developer;
  await developer.open(`/webhooks/${webhookId}`);
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByRole('button', { name: 'Send the test' }).click();
  const notice = page.getByRole('status').filter({ hasText: 'See the delivery' });
  await notice.getByRole('button', { name: 'Close' }).click();
  await notice.waitFor({ state: 'detached' });
  expect(developer.problems()).toEqual([]);
});
