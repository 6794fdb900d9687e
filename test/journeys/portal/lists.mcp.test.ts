import { afterEach, expect, test } from '@jest/globals';
import { callPortal } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';

// What a list says when a part of it does not arrive. The browser cannot reach the gateway for some time.

const owner = userForTests('owner');
afterEach(() => owner.page.unrouteAll());

/** From now on no call of this method arrives. */
const cutOff = (name: string) => owner.page.route(`**/*.${name}`, (route) => route.abort());

test('the next page of a list that does not arrive is an error with a button, and the rows stay', async () => {
  const { page } = owner;
  await owner.open('/returns');
  const rows = page.locator('main tbody tr');
  expect(await rows.count()).toBe(50);
  await cutOff('ReturnsService/SearchReturns');
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.locator('main').getByRole('alert').getByText('The service did not answer').waitFor();
  expect(await rows.count()).toBe(50);
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Try again' }).click();
  await rows.nth(50).waitFor();
  expect(await page.locator('main').getByRole('alert').count()).toBe(0);
});

test('a list that cannot be read again stays, and says that it may be out of date', async () => {
  const { page } = owner;
  await owner.open('/deliveries');
  const rows = page.locator('main tbody tr');
  await rows.first().waitFor();
  await cutOff('WebhooksService/ListDeliveries');
  const note = page.getByText('What you see may be out of date');
  await note.waitFor({ timeout: 60_000 });
  expect(await rows.count()).toBeGreaterThan(0);
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Try again' }).click();
  await note.waitFor({ state: 'detached' });
});

test('an empty page that is not the last leads to the next one', async () => {
  const { page } = owner;
  const first = { pageSize: 1 };
  const { nextCursor } = await callPortal<{ nextCursor: string }>(
    page,
    'WebhooksService/ListDeliveries',
    first,
  );
  await page.route('**/*.WebhooksService/ListDeliveries', (route) =>
    route.fulfill({ json: { nextCursor } }),
  );
  await owner.open('/deliveries');
  await page.getByText('No delivery matches so far.').waitFor();
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.locator('main tbody tr').first().waitFor();
});

test('the states of deliveries begin with what was not received, and an empty list has nothing to send again', async () => {
  const { page } = owner;
  await owner.open('/deliveries');
  const states = page.getByLabel('State', { exact: true }).locator('option');
  expect((await states.allInnerTexts()).slice(1, 3)).toEqual([
    'Not received (all kinds)',
    '– Waiting',
  ]);
  const again = page.getByRole('button', { name: 'Send these again' });
  await again.waitFor();
  await owner.open('/deliveries?return=999999999');
  await page.getByText('No delivery matches', { exact: true }).waitFor();
  expect(await again.count()).toBe(0);
});

test('a filter that cannot be read shows nothing, offers nothing, and says what to type', async () => {
  const { page } = owner;
  // What was cut off in the tests before is not a problem of these pages.
  owner.problems();
  const title = page.getByRole('heading', { name: 'is not the number of a return' });
  await owner.open('/audit-log');
  const exports = page.getByRole('button', { name: 'Export' });
  await exports.waitFor();
  await page.getByRole('searchbox', { name: 'Return' }).fill('#1001');
  await title.waitFor();
  expect(await exports.count()).toBe(0);
  await owner.open('/deliveries?return=%231001');
  await title.waitFor();
  expect(await page.locator('main tbody tr').count()).toBe(0);
  expect(await page.getByRole('button', { name: 'Send these again' }).count()).toBe(0);
  expect(await owner.findings()).toEqual([]);
  await page.getByRole('link', { name: 'Search the returns for “#1001”' }).click();
  await page.waitForURL('**/returns?q=%231001');
  await owner.open('/returns?from=2026-02-31');
  await page.getByRole('heading', { name: '“2026-02-31” is not a date' }).waitFor();
  await owner.open('/returns?mark=foo');
  await page.getByRole('heading', { name: '“foo” is not a mark of returns' }).waitFor();
  expect(await page.locator('main tbody tr').count()).toBe(0);
});

test('filters and dialogs whose script did not load can be tried again', async () => {
  const { page } = owner;
  await page.route(/\/assets\/audit-filters-/, (route) => route.abort());
  await owner.open('/audit-log');
  const alert = page.locator('main').getByRole('alert');
  await alert.getByText('This part of the page did not work').waitFor();
  // What was cut off is not a problem of the page.
  owner.problems();
  expect(await owner.findings()).toEqual([]);
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('searchbox', { name: 'Search' }).waitFor();
  expect(await alert.count()).toBe(0);

  await page.route(/\/assets\/destination-form-/, (route) => route.abort());
  await owner.open('/destinations');
  const add = page.getByRole('button', { name: 'Add a destination' }).first();
  await add.click();
  await page.getByText('A part of the page did not load').waitFor();
  await page.waitForURL('**/destinations');
  await page.unrouteAll();
  await add.click();
  await page.getByRole('dialog').getByLabel('Name').first().waitFor();
  owner.problems();
});

test('a date is applied when it is whole', async () => {
  const { page } = owner;
  await owner.open('/returns');
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.postData() ?? ''));
  await page.getByLabel('From').click();
  // Each key of the year gives a date of its own, the first in the year 2.
  await page.keyboard.type('01012020');
  await page.waitForURL('**/returns?from=2020-01-01');
  expect(asked.filter((body) => /"from":"(?!20|2019-12-31)/.test(body))).toEqual([]);
  await page.getByLabel('Until').click();
  await page.keyboard.type('0101');
  await page.getByLabel('From').click();
  await page.getByText('Type a whole date.').waitFor();
  expect(new URL(page.url()).search).toBe('?from=2020-01-01');
});

test('a filter that is not offered is shown, and what is sent again is counted at each opening', async () => {
  const { page } = owner;
  await owner.open('/deliveries?webhook=999999');
  expect(await page.getByLabel('Webhook', { exact: true }).inputValue()).toBe('999999');
  await owner.open('/deliveries');
  const counts: string[] = [];
  await page.route('**/*.WebhooksService/PreviewReplay', (route) => {
    counts.push(route.request().url());
    return route.continue();
  });
  for (const opening of [1, 2]) {
    await page.getByRole('button', { name: 'Send these again' }).click();
    await page
      .getByRole('dialog')
      .getByText(/deliver(?:y matches|ies match)/)
      .waitFor();
    expect(counts).toHaveLength(opening);
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  }
});

test('a list that does not arrive at all is an error with a button', async () => {
  const { page } = owner;
  await cutOff('WebhooksService/ListSubscriptions');
  await page.goto(`${owner.stack.file.base_url}/portal/webhooks`);
  const alert = page.locator('main').getByRole('alert');
  await alert.getByText('The service did not answer').waitFor();
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await page.locator('main tbody tr').first().waitFor();
});
