import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { createVisitors, untilLoaded, type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';
import { startReceiver } from '../kit/webhooks/receiver.ts';
import { verified } from '../kit/webhooks/signatures.ts';

let stack: OpenStack;
let browser: Browser;
let pageOf: ReturnType<typeof createVisitors>;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  pageOf = createVisitors(stack, browser);
}, 180_000);
afterAll(() => browser?.close(), 60_000);

/** Does something as a user, and expects no error of the page. */
async function as(name: string, work: (visitor: Visitor) => Promise<void>) {
  const visitor = await pageOf(name);
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
    const { id } = await stack.fixture('open');
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

  test('goes into review and out of it again, and the timeline says why', async () => {
    const { id } = await stack.fixture('open');
    await as('returns_agent', async ({ page, open }) => {
      await open(`/returns/${id}`);
      await chooseMore(page, 'Put into review');
      await page.getByLabel('Why must somebody look at it?').fill('The parcel is damaged');
      await press(page, 'Put into review');
      await page.locator('main').getByText('In review', { exact: true }).waitFor();
      await page.locator('main').getByText('The parcel is damaged').first().waitFor();
      await press(page, 'End the review');
      await page.getByText('The return will be open again.').waitFor();
      await page.getByLabel('Comment for the timeline (optional)').fill('It was a scratch');
      await page.getByRole('dialog').getByRole('button', { name: 'End the review' }).click();
      await page.locator('main').getByText('Open', { exact: true }).waitFor();
      await page.getByText('The review ended: It was a scratch').waitFor();
    });
  });

  test('with an open instant refund says before why it is not processed, and what cancelling leaves', async () => {
    const { id } = await stack.fixture('instant_refund');
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

  test('is graded by the warehouse, which also says what becomes of the goods', async () => {
    const { id } = await stack.fixture('open');
    await as('warehouse', async ({ page, open }) => {
      await open(`/returns/${id}`);
      await press(page, 'Grade');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Condition').first().selectOption('Grade B');
      await dialog.getByLabel('Note').first().fill('A scratch');
      await press(page, 'Record');
      const recorded = page.locator('main dd');
      await recorded.filter({ hasText: 'Grade B (A scratch)' }).waitFor();
      await press(page, 'Set dispositions');
      await dialog.getByLabel('Disposition').first().selectOption('Resale hold');
      await press(page, 'Record');
      await recorded.filter({ hasText: 'Resale hold' }).waitFor();
    });
  });

  test('is reported as fraud only with a category that somebody chose', async () => {
    const { id } = await stack.fixture('open');
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

  test('shows a note of people as text, whatever it contains', async () => {
    const { id } = await stack.fixture('open');
    const note = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
    await as('owner', async ({ page, open }) => {
      await open(`/returns/${id}`);
      await chooseMore(page, 'Add a note');
      await page.getByRole('textbox', { name: 'Note' }).fill(note);
      await press(page, 'Add the note');
      await page.getByText(note).waitFor();
      expect(await page.title()).toMatch(/^Return of/);
    });
  });

  test('is seen but not changed by an analyst', async () => {
    const { id } = await stack.fixture('open');
    await as('analyst', async ({ page, open }) => {
      await open(`/returns/${id}`);
      expect(await page.locator('main').getByRole('button').allInnerTexts()).toEqual([]);
    });
  });

  test('is found by its order name, and the address keeps the filters', async () => {
    const { order_name: name } = await stack.fixture('open');
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
    const { id, order_name: name } = await stack.fixture('open');
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

test('a webhook is added, tested and deleted', async () => {
  const receiver = await startReceiver();
  try {
    await as('developer', async ({ page, open }) => {
      await open('/webhooks');
      await press(page, 'Add a webhook');
      await page
        .getByRole('textbox', { name: /^Address/ })
        .fill(new URL('/portal', receiver.url).href);
      await press(page, 'Add the webhook');
      const secret = (
        await page
          .getByRole('dialog')
          .getByText(/^whsec_/)
          .innerText()
      ).trim();
      await press(page, 'Open the webhook and send a test');
      await press(page, 'Send a test event');
      await press(page, 'Send the test');
      await page.getByText('The receiver accepted the test').waitFor();
      await page.getByRole('link', { name: 'See the delivery' }).click();
      await page.locator('main').getByText('Delivered', { exact: true }).first().waitFor();
      await page.locator('main').getByText('HTTP 200').first().waitFor();
      const [received] = receiver.received;
      if (!received) throw new Error('nothing arrived');
      expect(verified(secret, received)).toMatchObject({ trigger: 'return.closed' });
      await page.getByRole('link', { name: /^Webhook \d+$/ }).click();
      await chooseMore(page, 'Delete');
      await press(page, 'Delete the webhook');
      await page.getByRole('heading', { name: 'Webhooks', exact: true }).waitFor();
    });
  } finally {
    await receiver.stop();
  }
});

test('an API key is shown once, works, and ends when it is revoked', () =>
  as('developer', async ({ page, open }) => {
    const read = async (key: string) => {
      const [ref] = stack.shop.fixtures.returns.open ?? [];
      const url = `${stack.file.base_url}/api/2026-10/warehouse/return/details?return_id=${ref?.id}`;
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
    for (const part of [`${stack.file.base_url}/api/`, key, '/docs/reference']) {
      expect(handOver).toContain(part);
    }
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.mouse.click(5, 5);
    expect(await read(key)).toBe(200);
    await press(page, 'I have copied it');
    await press(page, `Revoke ${name}`);
    await press(page, 'Revoke the key');
    await page.getByRole('row').filter({ hasText: name }).getByText('Revoked').waitFor();
    expect(await page.content()).not.toContain(key);
  }));

describe('by the keyboard', () => {
  test('a menu opens, moves and closes, and a dialog gives the focus back', async () => {
    const { id } = await stack.fixture('open');
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

test('a user of two shops switches, and sees only the other one', () =>
  as('two_shops', async ({ page }) => {
    const switcher = page.getByRole('button', { name: /^Shop: / });
    const before = await switcher.innerText();
    await switcher.click();
    await page.locator('header [data-item]:not([aria-current])').first().click();
    await switcher.filter({ hasNotText: before }).waitFor();
    await untilLoaded(page);
  }));

test('after the sign-out the page asks for a sign-in', async () => {
  const { page, close } = await visit(stack, browser, 'analyst');
  await page.getByRole('button', { name: /^Account of/ }).click();
  await press(page, 'Sign out');
  await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
  const calls = await page
    .context()
    .request.post(`${stack.file.base_url}/portal/api/rms.portal.v1.SessionService/GetSession`, {
      headers: { 'connect-protocol-version': '1', 'sec-fetch-site': 'same-origin' },
      data: {},
    });
  expect(calls.status()).toBe(401);
  await close();
});

test.each([
  ['light', 'rgb(255, 255, 255)'],
  ['dark', 'rgb(36, 36, 36)'],
] as const)('the first paint is %s without a script, so nothing flashes', async (scheme, color) => {
  const context = await browser.newContext({ colorScheme: scheme, javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`${stack.file.base_url}/portal/signed-out`);
  const background = 'getComputedStyle(document.documentElement).backgroundColor';
  expect(await page.evaluate<string>(background)).toBe(color);
  await context.close();
});
