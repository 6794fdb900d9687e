import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { callPortal } from '../kit/portal/call.ts';
import { alertsOn, untilLoaded, type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

// Two tabs of one browser have one session. The first switches the shop, and the second must notice.

let stack: OpenStack;
let browser: Browser;
let user: Visitor;
let tab: Page;
let problems: string[];
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
}, 180_000);
afterAll(() => browser?.close(), 60_000);
beforeEach(async () => {
  user = await visit(stack, browser, 'two_shops');
  tab = await user.page.context().newPage();
  problems = [];
  tab.on('pageerror', ({ message }) => problems.push(message));
  tab.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  tab.on('response', (response) => {
    if (response.status() >= 400) problems.push(`${response.status()} ${response.url()}`);
  });
  await tab.goto(`${stack.file.base_url}/portal/team`);
  await untilLoaded(tab);
}, 120_000);
afterEach(() => user?.close());

interface Session {
  readonly shop: { readonly id: string; readonly name: string };
  readonly shops: readonly { readonly id: string; readonly name: string }[];
}

/** The other shop of the user. */
async function otherShop() {
  const { shop, shops } = await callPortal<Session>(user.page, 'SessionService/GetSession', {});
  const other = shops.find(({ id }) => id !== shop.id);
  if (!other) throw new Error('the user has one shop');
  return other;
}

/** Switches the shop without a message to the tab, as a browser that had put the tab to sleep. */
async function switchSilently(): Promise<string> {
  const { id: shopId, name } = await otherShop();
  await callPortal(user.page, 'SessionService/SwitchShop', { shopId });
  return name;
}

/** Expects that the tab shows the other shop from its first page on, says why, and had no failed request. */
async function expectMoved(name: string): Promise<void> {
  await tab.getByText(`You are now in ${name}: you switched the shop in another tab.`).waitFor();
  await tab.getByRole('button', { name: `Shop: ${name}. Switch to another` }).waitFor();
  await tab.waitForURL((url) => url.pathname !== '/portal/team');
  await untilLoaded(tab);
  expect(await alertsOn(tab.locator('main'))).toEqual([]);
  expect(problems).toEqual([]);
}

describe('after the shop was switched in another tab, a tab shows the other shop', () => {
  test('at once, because the tab that switches tells it', async () => {
    const { name } = await otherShop();
    const { page } = user;
    await page.getByRole('button', { name: /^Shop: / }).click();
    await page.locator('header [data-item]:not([aria-current])').first().click();
    await expectMoved(name);
    await untilLoaded(page);
    expect(user.problems()).toEqual([]);
  });

  test('when the user returns to it', async () => {
    const name = await switchSilently();
    await tab.evaluate("window.dispatchEvent(new Event('visibilitychange'))");
    await expectMoved(name);
  });

  test('when the user opens a page of the former shop', async () => {
    const name = await switchSilently();
    await tab.getByRole('link', { name: 'Connected assistants' }).click();
    await expectMoved(name);
  });
});
