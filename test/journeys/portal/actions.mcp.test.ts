import { describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { portalForTests, type Visitor } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

const portal = portalForTests();

/** Does something as a user, and expects no error of the page. */
async function as(name: string, work: (visitor: Visitor) => Promise<void>) {
  const visitor = await portal.userNamed(name);
  await work(visitor);
  expect(visitor.problems()).toEqual([]);
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** Chooses an action of the menu "More". */
async function chooseMore(page: Page, name: string) {
  await press(page, 'More actions');
  await press(page, name);
}

describe('a return', () => {
  test('is processed after the page said what will happen', async () => {
    const { id } = await portal.stack.fixture('open');
    await as('returns_agent', async ({ page, open }) => {
      await open(`/returns/${id}`);
      await press(page, 'Process');
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('listitem').first().waitFor();
      await dialog.getByText('what becomes of the goods afterwards').waitFor();
      await dialog.getByRole('button', { name: 'Process the return' }).click();
      await page.locator('main').getByText('Closed', { exact: true }).waitFor();
      const result = page.getByRole('status').filter({ hasText: /^Processed/ });
      await result.getByText(/refunded to the shopper's original payment method on/).waitFor();
      await page.getByText('is being processed').waitFor({ state: 'detached' });
      expect(await page.getByText(/queued/).count()).toBe(0);
      expect(await page.getByRole('button', { name: 'Process', exact: true }).count()).toBe(0);
    });
  });

  test('with an open instant refund says before why it is not processed, and what cancelling leaves', async () => {
    const { id } = await portal.stack.fixture('instant_refund');
    await as('returns_agent', async ({ page, open }) => {
      await open(`/returns/${id}`);
      expect(await page.getByRole('button', { name: 'Process', exact: true }).isDisabled()).toBe(
        true,
      );
      await page.locator('main').getByText('this instant refund is still open').waitFor();
      await chooseMore(page, 'Cancel the return');
      const dialog = page.getByRole('dialog');
      await dialog.getByText('The shopper was paid before the goods arrived').waitFor();
      await press(page, 'Keep the return');
    });
  });

  test('is reported as fraud only with a category that somebody chose', async () => {
    const { id } = await portal.stack.fixture('open');
    await as('owner', async ({ page, open }) => {
      await open(`/returns/${id}`);
      await chooseMore(page, 'Report fraud');
      const dialog = page.getByRole('dialog');
      expect(await dialog.getByLabel('What happened').inputValue()).toBe('');
      expect(await dialog.getByRole('button', { name: 'Report as fraud' }).isDisabled()).toBe(true);
      await press(page, 'Cancel');
      await chooseMore(page, 'Cancel the return');
      await press(page, 'Keep the return');
      await dialog.waitFor({ state: 'detached' });
      await page.locator('main').getByText('Open', { exact: true }).waitFor();
    });
  });

  test('is seen but not changed by an analyst', async () => {
    const { id } = await portal.stack.fixture('open');
    await as('analyst', async ({ page, open }) => {
      await open(`/returns/${id}`);
      expect(await page.locator('main').getByRole('button').allInnerTexts()).toEqual([]);
    });
  });

  test('is found by its order name, and the address keeps the filters', async () => {
    const { order_name: name } = await portal.stack.fixture('open');
    await as('warehouse', async ({ page, open }) => {
      await open('/returns');
      // People often leave the # out.
      await page.getByLabel('Search').pressSequentially(name.replace('#', ''));
      await page.getByText('1 return', { exact: true }).waitFor();
      await page.reload();
      await page.getByText('1 return', { exact: true }).waitFor();
      expect(await page.getByLabel('Search').inputValue()).toBe(name.replace('#', ''));
    });
  });

  test('is opened by a click straight after the search is typed', async () => {
    const { id, order_name: name } = await portal.stack.fixture('open');
    await as('warehouse', async ({ page, open }) => {
      await open('/returns');
      const row = page.locator(`main a[href$="/returns/${id}"]`);
      await row.waitFor();
      await page.getByLabel('Search').pressSequentially(name);
      await row.click();
      await page.getByRole('heading', { name: `Return of ${name}` }).waitFor();
    });
  });
});

test('an API key is shown once, works when an owner has approved it, and ends when it is revoked', () =>
  as('developer', async ({ page, open }) => {
    const read = async (key: string) => {
      const [ref] = portal.stack.shop.fixtures.returns.open ?? [];
      const url = `${portal.stack.file.base_url}/api/2026-10/warehouse/return/details?return_id=${ref?.id}`;
      return (await fetch(url, { headers: { 'x-authorization': key } })).status;
    };
    const name = `Key of a test ${Date.now()}`;
    await open('/api-keys');
    await press(page, 'Create an API key');
    await page.getByLabel('Which system will use it?').fill(name);
    await page.locator('input[type=checkbox][value=returns]').check();
    await press(page, 'Create the key');
    const dialog = page.getByRole('dialog');
    const key = (await dialog.getByText(/^rms_/).innerText()).trim();
    const handOver = await dialog.getByText(/^Base URL: /).innerText();
    for (const part of [`${portal.stack.file.base_url}/api/`, key, '/docs/reference']) {
      expect(handOver).toContain(part);
    }
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.mouse.click(5, 5);
    await dialog.getByText('The key waits for an owner').waitFor();
    expect(await read(key)).toBe(401);
    await as('owner', async (owner) => {
      await owner.open('/api-keys');
      await press(owner.page, `Approve ${name}`);
      await press(owner.page, 'Approve the key');
      const row = owner.page.getByRole('row').filter({ hasText: name });
      await row.getByText('Valid', { exact: true }).waitFor();
    });
    await until(async () => (await read(key)) === 200);
    await press(page, 'I have copied it');
    await press(page, `Revoke ${name}`);
    await press(page, 'Revoke the key');
    await page.getByRole('row').filter({ hasText: name }).getByText('Revoked').waitFor();
    expect(await page.content()).not.toContain(key);
  }));

describe('by the keyboard', () => {
  test('a menu opens, moves and closes, and a dialog gives the focus back', async () => {
    const { id } = await portal.stack.fixture('open');
    await as('owner', async ({ page, open }) => {
      await open(`/returns/${id}`);
      const menu = page.getByRole('button', { name: 'More actions' });
      await menu.focus();
      await page.keyboard.press('Enter');
      await page.keyboard.press('ArrowDown');
      const focused = page.locator(':focus');
      expect(await focused.innerText()).toBe('Add a note');
      await page.keyboard.press('Escape');
      expect(await focused.getAttribute('aria-label')).toBe('More actions');
      const process = page.getByRole('button', { name: 'Process', exact: true });
      await process.focus();
      await page.keyboard.press('Enter');
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(await focused.innerText()).toBe('Process');
    });
  });
});

test.each([
  ['light', 'rgb(255, 255, 255)'],
  ['dark', 'rgb(36, 36, 36)'],
] as const)('the first paint is %s without a script, so nothing flashes', async (scheme, color) => {
  const context = await portal.browser.newContext({
    colorScheme: scheme,
    javaScriptEnabled: false,
  });
  const page = await context.newPage();
  await page.goto(`${portal.stack.file.base_url}/portal/signed-out`);
  const background = 'getComputedStyle(document.documentElement).backgroundColor';
  expect(await page.evaluate<string>(background)).toBe(color);
  await context.close();
});
