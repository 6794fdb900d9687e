import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../../kit/mcp/browser.ts';
import { type Visitor, visit } from '../../kit/portal/visitor.ts';
import { startTestStack, type TestStack } from '../../kit/stack.ts';

// On a small notebook every word is whole, although long addresses stand beside it. A stack of its own: other tests leave
// words that are too long for every column.

let stack: TestStack;
let browser: Browser;
let owner: Visitor;
beforeAll(async () => {
  stack = await startTestStack();
  browser = await startBrowser();
  owner = await visit(stack, browser, 'owner');
});
afterAll(async () => {
  await browser?.close();
  await stack?.stop();
});

/** The words of the page that stand on two lines. Addresses may break before `@` and after `/`, words at
 * their hyphens, except versions, and long ids anywhere. */
const brokenWords = (page: Page) =>
  page.evaluate<string[]>(`(() => {
    const broken = new Set();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (text.parentElement.closest('.visually-hidden, script, style')) continue;
      for (const { 0: word, index } of text.data.matchAll(/\\d{4}-\\d\\d|[^\\s@/-]{2,24}(?![^\\s@/-])/g)) {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        const lines = [...range.getClientRects()].filter(({ width }) => width > 0);
        if (new Set(lines.map(({ top }) => Math.round(top))).size > 1) broken.add(word);
      }
    }
    return [...broken];
  })()`);

test.each(['/webhooks', '/deliveries', '/api-keys', '/usage', '/team', '/audit-log'])(
  'no word of %s breaks inside at 1280 px',
  async (path) => {
    const { page, open } = owner;
    await page.setViewportSize({ width: 1280, height: 800 });
    await open(path);
    expect(await brokenWords(page)).toEqual([]);
  },
);

test('no word of a return breaks inside at 1280 px', async () => {
  const { id } = await stack.fixture('open');
  const { page, open } = owner;
  await page.setViewportSize({ width: 1280, height: 800 });
  await open(`/returns/${id}`);
  expect(await brokenWords(page)).toEqual([]);
});
