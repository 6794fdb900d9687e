import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { callPortal } from '../kit/portal/call.ts';
import { type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';
import { until } from '../kit/until.ts';
import { type Receiver, startReceiver } from '../kit/webhooks/receiver.ts';

// When a delivery is tried next, while its webhook cannot be sent anything.

let stack: OpenStack;
let browser: Browser;
let developer: Visitor;
let broken: Receiver;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  developer = await visit(stack, browser, 'developer');
  broken = await startReceiver();
  broken.answer = (response) => void response.writeHead(500).end();
}, 180_000);
afterAll(async () => {
  await Promise.all([browser?.close(), broken?.stop()]);
}, 60_000);

const call = <T>(method: string, body: object) =>
  callPortal<T>(developer.page, `WebhooksService/${method}`, body);

async function addWebhook(): Promise<string> {
  const url = new URL(`/${randomUUID()}`, broken.url).href;
  const content = { idempotencyKey: randomUUID(), topic: 'return', trigger: 'return.closed', url };
  return (await call<{ webhook: { id: string } }>('CreateWebhook', content)).webhook.id;
}

const sendTest = (webhookId: string) =>
  call('SendTest', { webhookId, idempotencyKey: randomUUID() });

/** Enough failures of enough deliveries, over more than five seconds. */
async function untilPaused(webhookId: string): Promise<void> {
  const tests = 6;
  const before = broken.received.length;
  for (let sent = 0; sent < tests; sent += 1) await sendTest(webhookId);
  await until(() => broken.received.length >= before + tests);
  await until(async () => {
    const { deliveries } = await call<{ deliveries: { attemptCount?: number }[] }>(
      'ListDeliveries',
      { webhookId },
    );
    // A slow machine may have made the second attempt of the first delivery already.
    return deliveries.every(({ attemptCount = 0 }) => attemptCount > 0);
  });
  await stack.control('POST', '/clock/webhooks', { advance_s: 7 });
  await until(async () => {
    const { webhook } = await call<{ webhook: { health: { pausedSince?: string } } }>(
      'GetWebhook',
      { webhookId },
    );
    return webhook.health.pausedSince !== undefined;
  });
}

test('a delivery of a webhook that fails is paused, and one of an inactive webhook waits for it', async () => {
  const { page } = developer;
  const webhookId = await addWebhook();
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
  await call('UpdateWebhook', { webhookId, status: 'inactive', idempotencyKey: randomUUID() });
  await developer.open(`/deliveries?webhook=${webhookId}`);
  const rows = page.getByRole('table', { name: 'Deliveries' }).getByRole('row');
  await rows.nth(1).getByText('when the webhook is active again').waitFor();
  expect(await page.getByText(/^due$/).count()).toBe(0);
  expect(await developer.findings()).toEqual([]);
  await call('DeleteWebhook', { webhookId });
}, 120_000);
