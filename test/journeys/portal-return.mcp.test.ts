import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

let stack: OpenStack;
let browser: Browser;
let owner: Visitor;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  owner = await visit(stack, browser, 'owner');
}, 180_000);
afterAll(() => browser?.close(), 60_000);

test('a return has a line for each part of a refund, and after its cancellation says that nothing was paid', async () => {
  const { id } = await stack.fixture('open');
  const { page } = owner;
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await owner.open(`/returns/${id}`);
  const names = page.locator('main dt');
  await names.getByText('Shipping', { exact: true }).first().waitFor();
  await page.getByText('Refund to the shopper').waitFor();
  const revision = names.getByText('Revision', { exact: true });
  expect(await revision.isVisible()).toBe(false);
  await page.locator('summary').getByText('Details for support').click();
  await revision.waitFor();
  expect(await owner.findings()).toEqual([]);
  await press('More actions');
  await press('Cancel the return');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the return' }).click();
  await page.getByRole('cell').getByText('Would have been refunded').waitFor();
  expect(await names.getByText('Refund', { exact: true }).count()).toBe(0);
  // As if processing had placed the exchange order before.
  await page.route(/ReturnsService\/GetReturn$/, async (route) => {
    const response = await route.fetch();
    const { return: shown } = await response.json();
    const effects = [{ kind: 'exchange_order', reference: '#1002' }];
    await route.fulfill({ response, json: { return: { ...shown, effects } } });
  });
  await page.reload();
  await page.getByText('which cancelled the order').waitFor();
  await page.unrouteAll();
});

test('the dialog says before processing which goods are paid although they are missing', async () => {
  const { id } = await stack.fixture('open');
  const { page } = owner;
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await owner.open(`/returns/${id}`);
  await press('Set dispositions');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox').first().selectOption('missing');
  await dialog.getByRole('button', { name: 'Record', exact: true }).click();
  await page.getByText('The dispositions are recorded.').waitFor();
  await press('Process');
  const warning = dialog.getByText('recorded as missing');
  await warning.waitFor();
  expect(await warning.innerText()).toMatch(/^“.+”: recorded as missing, but the whole return is/);
});
