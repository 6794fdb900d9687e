import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { callPortal } from '../../kit/portal/call.ts';
import { alertsOn, portalForTests, untilLoaded, type Visitor } from '../../kit/portal/visitor.ts';

// Two tabs of one browser have one session. The first switches the shop, and the second must notice.

const portal = portalForTests();
let user: Visitor;
let tab: Page;
let problems: string[];
beforeEach(async () => {
  user = await portal.visit('two_shops');
  tab = await user.page.context().newPage();
  problems = [];
  tab.on('pageerror', ({ message }) => problems.push(message));
  tab.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  tab.on('response', (response) => {
    if (response.status() >= 400) problems.push(`${response.status()} ${response.url()}`);
  });
  await tab.goto(`${portal.stack.file.base_url}/portal/team`);
  await untilLoaded(tab);
});
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

test('a page that the browser kept while the shop was switched is read again when the user goes back to it', async () => {
  const { name } = await otherShop();
  const { page } = user;
  await user.open('/team');
  // The page stays, as one that the browser keeps.
  await page.route(/\/portal\/$/, (route) => route.fulfill({ status: 204 }), { times: 1 });
  const left = page.waitForResponse(/\/portal\/$/);
  await page.getByRole('button', { name: /^Shop: / }).click();
  await page.locator('header [data-item]:not([aria-current])').first().click();
  await left;
  await page.evaluate(
    "window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))",
  );
  await page.getByRole('button', { name: `Shop: ${name}. Switch to another` }).waitFor();
  await untilLoaded(page);
  expect(await alertsOn(page.locator('main'))).toEqual([]);
});
