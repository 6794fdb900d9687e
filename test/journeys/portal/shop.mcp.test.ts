import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type pg from 'pg';
import { storeGrant } from '../../../gateway/oauth/tokens/issue.ts';
import { gatewayPool, userIdOf } from '../../kit/portal/gateway-pool.ts';
import { userForTests } from '../../kit/portal/visitor.ts';

const owner = userForTests('owner');
let database: pg.Pool;
beforeAll(() => {
  database = gatewayPool(owner.stack);
});
afterAll(() => database?.end());

test.each([
  ['a screen', 1440, 'All roles'],
  ['a phone', 390, 'Owner'],
  ['a phone with all roles', 390, 'All roles'],
])('the headings of the role table stay visible on %s', async (_name, width, shown) => {
  const { page } = owner;
  await page.setViewportSize({ width, height: 700 });
  await owner.open('/team');
  await page.getByLabel('Show', { exact: true }).selectOption(shown);
  const last = page.locator('main tbody th[scope=row]').last();
  await last.scrollIntoViewIfNeeded();
  const heading = page.getByRole('columnheader', { name: 'Action', exact: true });
  const box = await heading.boundingBox();
  const lastBox = await last.boundingBox();
  // Below the header of the page, and above the row.
  expect(box?.y).toBeGreaterThanOrEqual(55);
  expect(box?.y).toBeLessThan(lastBox?.y ?? 0);
  expect(await owner.findings()).toEqual([]);
});

test('every role says whom it is for, in the page and where a person is invited', async () => {
  const { page } = owner;
  await page.setViewportSize({ width: 1440, height: 900 });
  await owner.open('/team');
  await page.getByText(/^For people who receive parcels/).waitFor();
  await page.getByRole('button', { name: 'Invite a person' }).click();
  const dialog = page.getByRole('dialog');
  const warehouse = dialog.getByRole('radio', { name: 'Warehouse' });
  await warehouse.check();
  await dialog.getByText(/^For people who receive parcels/).waitFor();
  expect(await dialog.getByText(/^For /).count()).toBe(await dialog.getByRole('radio').count());
  await dialog.getByLabel('E-mail address').fill('somebody@example.com');
  expect(await dialog.getByRole('button', { name: 'Invite', exact: true }).isEnabled()).toBe(true);
  await page.keyboard.press('Escape');
});

test('assistants are grouped by person and app, and those that never called are folded', async () => {
  const { page } = owner;
  const [used, unused] = [`${randomUUID()}.example`, `${randomUUID()}.example`];
  const userId = await userIdOf(database, owner.stack, 'analyst');
  const grant = { userId, shopId: BigInt(owner.stack.shop.id), clientId: 'rms-mcp' };
  for (const app of [used, used, unused, unused]) {
    await storeGrant(database, randomUUID(), { ...grant, app });
  }
  await database.query(
    `update oauth_grants set last_used_at = now()
      where id = (select id from oauth_grants where app = $1 limit 1)`,
    [used],
  );
  try {
    await owner.open('/assistants');
    const rowOf = (app: string) => page.getByRole('row').filter({ hasText: app });
    await rowOf(used).getByText('2 connections').waitFor();
    expect(await rowOf(unused).count()).toBe(0);
    await page.locator('summary').getByText('that never called').click();
    await rowOf(unused).getByText('never').waitFor();
    expect(await owner.findings()).toEqual([]);
    await page.getByRole('button', { name: new RegExp(`^Disconnect ${unused} `) }).click();
    await page.getByText('All 2 connections end.').waitFor();
    await page.getByRole('button', { name: 'Disconnect', exact: true }).click();
    await rowOf(unused).waitFor({ state: 'detached' });
    await rowOf(used).waitFor();
  } finally {
    await database.query('delete from oauth_grants where app = any($1)', [[used, unused]]);
  }
});

test('the audit log is filtered by person, thing and action in its address, and says which filter to remove', async () => {
  const { page } = owner;
  await owner.open('/audit-log');
  const main = page.locator('main');
  // An analyst may not do that, so no other test leaves such an entry.
  await page.getByLabel('Person or key').selectOption('analyst, analyst@example.com');
  await page.getByLabel('Action', { exact: true }).selectOption('Remove a member');
  await page.waitForURL(/actor=\d+&action=remove_member$/);
  await page.getByLabel('Thing').selectOption('API key');
  await page.waitForURL(/actor=\d+&action=remove_member&thing=key$/);
  const offered = await page.getByLabel('Action', { exact: true }).innerText();
  expect([/Create an API key/.test(offered), /Invite a person/.test(offered)]).toEqual([
    true,
    false,
  ]);
  await page.getByLabel('Thing').selectOption('Member');
  await main.getByRole('heading', { name: 'No entry matches' }).waitFor();
  expect(await owner.findings()).toEqual([]);
  await page.reload();
  await main.getByRole('button', { name: 'Remove “Thing: Member”' }).click();
  await main.getByRole('button', { name: 'Remove “Action: Remove a member”' }).click();
  await page.waitForURL(/actor=\d+$/);
  await page.getByLabel('Person or key').selectOption('owner, owner@example.com');
  await main.locator('tbody tr').first().waitFor();
  expect(await page.getByLabel('Action', { exact: true }).inputValue()).toBe('');
});
