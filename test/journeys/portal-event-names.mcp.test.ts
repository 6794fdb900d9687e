import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { callPortal } from '../kit/portal/call.ts';
import { untilLoaded, type Visitor, visit } from '../kit/portal/visitor.ts';

// Beside an address without a place to break, the name of an event breaks after its dots only.

let browser: Browser;
let developer: Visitor;
let webhookId: string;
beforeAll(async () => {
  const stack = await sharedStack();
  browser = await startBrowser();
  developer = await visit(stack, browser, 'developer');
  const content = {
    idempotencyKey: randomUUID(),
    topic: 'return',
    trigger: 'return.processing.failed',
    url: `https://hooks.example.com/${'a'.repeat(1_500)}`,
  };
  const create = 'WebhooksService/CreateWebhook';
  webhookId = (await callPortal<{ webhook: { id: string } }>(developer.page, create, content))
    .webhook.id;
  await callPortal(developer.page, 'WebhooksService/SendTest', {
    webhookId,
    idempotencyKey: randomUUID(),
  });
}, 180_000);
afterAll(async () => {
  await callPortal(developer.page, 'WebhooksService/DeleteWebhook', { webhookId });
  await browser?.close();
}, 60_000);

/** The parts of names of events in tables that take more than one line. A part ends with a dot or with the name. */
const BROKEN_PARTS = `[...document.querySelectorAll('main td')].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (texts.nextNode()) {
    const { currentNode: text } = texts;
    if (!/^[a-z_]{1,30}\\.?$/.test(text.data) || !text.parentElement.querySelector('wbr')) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    if (range.getClientRects().length > 1) broken.push(text.data);
  }
  return broken;
})`;

const OVERFLOW = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';

test.each([
  ['/webhooks', 1280],
  ['/webhooks', 820],
  ['/webhooks', 390],
  ['/deliveries', 1280],
  ['/payload-version?to=2026-07', 1280],
])('on %s at %d px', async (path, width) => {
  const { page } = developer;
  await page.setViewportSize({ width, height: 900 });
  await developer.open(path);
  await page.locator('main td').getByText('processing.').first().waitFor();
  await untilLoaded(page);
  expect(await page.evaluate<string[]>(BROKEN_PARTS)).toEqual([]);
  expect(await page.evaluate<number>(OVERFLOW)).toBe(0);
  expect(await developer.findings()).toEqual([]);
});
