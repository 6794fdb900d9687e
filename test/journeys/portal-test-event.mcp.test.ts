import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { callPortal } from '../kit/portal/call.ts';
import { type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';
import { type Receiver, startReceiver } from '../kit/webhooks/receiver.ts';

// The page of a webhook says what became of a test event that was sent from it.

let stack: OpenStack;
let browser: Browser;
let developer: Visitor;
let receiver: Receiver;
let webhookId: string;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  developer = await visit(stack, browser, 'developer');
  receiver = await startReceiver();
  const { webhook } = await callPortal<{ webhook: { id: string } }>(
    developer.page,
    'WebhooksService/CreateWebhook',
    {
      idempotencyKey: randomUUID(),
      topic: 'return',
      trigger: 'return.closed',
      url: new URL(`/${randomUUID()}`, receiver.url).href,
    },
  );
  webhookId = webhook.id;
}, 180_000);
afterAll(async () => {
  await callPortal(developer.page, 'WebhooksService/DeleteWebhook', { webhookId });
  await Promise.all([browser?.close(), receiver?.stop()]);
}, 60_000);

test.each<[string, number, string, RegExp]>([
  ['accepts', 200, 'The receiver accepted the test', /accepted \(HTTP 200\) on /],
  [
    'rejects',
    404,
    'The receiver did not accept the test',
    /this address does not exist \(404\)\. Check the address of the webhook/,
  ],
])('a test that the receiver %s', async (_name, status, title, text) => {
  receiver.answer = (response) => void response.writeHead(status).end();
  const { page } = developer;
  await developer.open(`/webhooks/${webhookId}`);
  const row = page.getByRole('table', { name: 'Deliveries' }).getByRole('row').nth(1);
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByRole('button', { name: 'Send the test' }).click();
  const notice = page.getByRole('status').filter({ hasText: title });
  await notice.getByText(text).waitFor();
  await notice.getByText('return.closed').waitFor();
  // The reader is where they were, and the list below has the test.
  expect(new URL(page.url()).pathname).toBe(`/portal/webhooks/${webhookId}`);
  await row.getByText(`HTTP ${status}`).waitFor();
  expect(await developer.findings()).toEqual([]);
  await notice.getByRole('link', { name: 'See the delivery' }).click();
  await page.getByRole('heading', { name: 'Delivery of return.closed' }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { name: `Webhook ${webhookId}` }).waitFor();
  expect(await notice.count()).toBe(0);
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
