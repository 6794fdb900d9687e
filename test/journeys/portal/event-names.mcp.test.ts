import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from '@jest/globals';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { untilLoaded, userForTests } from '../../kit/portal/visitor.ts';

// Beside an address without a place to break, the name of an event breaks after its dots only.

const developer = userForTests('developer');
let webhookId: string;
beforeAll(async () => {
  webhookId = await addWebhook(developer.page, {
    trigger: 'return.processing.failed',
    url: `https://hooks.example.com/${'a'.repeat(1_500)}`,
  });
  await callPortal(developer.page, 'WebhooksService/SendTest', {
    subscriptionId: webhookId,
    idempotencyKey: randomUUID(),
  });
});
developer.atEnd(async () => webhookId && deleteWebhooks(developer.page, webhookId));

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
