import { randomInt, randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { callPortal } from '../../kit/portal/call.ts';
import { newShop } from '../../kit/portal/new-shop.ts';
import { userForTests } from '../../kit/portal/visitor.ts';

const owner = userForTests('owner');

test('a return has a line for each part of a refund, and after its cancellation says that nothing was paid', async () => {
  const { id } = await owner.stack.fixture('open');
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
  await page.route(/ReturnsService\/FindReturn$/, async (route) => {
    const response = await route.fetch();
    const { return: shown } = await response.json();
    const exchangeOrders = [{ id: '2', name: '#1002' }];
    await route.fulfill({ response, json: { return: { ...shown, exchangeOrders } } });
  });
  await page.reload();
  await page.getByText('which cancelled the order').waitFor();
  await page.unrouteAll();
});

test('a return in review is declined only with a reason, which the page and the timeline then show', async () => {
  const { id } = await owner.stack.fixture('flagged');
  const { page } = owner;
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await owner.open(`/returns/${id}`);
  await press('More actions');
  await press('Decline the return');
  const dialog = page.getByRole('dialog');
  const decline = dialog.getByRole('button', { name: 'Decline the return' });
  await decline.click();
  const reason = dialog.getByRole('textbox');
  expect(await reason.evaluate((box) => box.matches(':invalid'))).toBe(true);
  await reason.fill('The shoes were worn');
  await decline.click();
  const notice = page.getByRole('status').filter({ hasText: /^Declined/ });
  await notice.getByText('The return was declined: The shoes were worn').waitFor();
  expect(await page.locator('#timeline li').first().innerText()).toMatch(
    /^The return was declined: The shoes were worn\n/,
  );
  await page.locator('main').getByText('Cancelled', { exact: true }).waitFor();
  expect(await owner.findings()).toEqual([]);
});

test('what arrived is counted line by line, and what was not announced is said not to be paid', async () => {
  const { id, line_item_ids: lines } = await owner.stack.fixture('open');
  const { page } = owner;
  const arrival = {
    return_id: id,
    items: [{ line_item_id: lines[0], quantity: 3, damaged_quantity: 1, note: 'A torn box' }],
    unexpected: [{ title: 'A hat', quantity: 2 }],
  };
  const headers = {
    'x-authorization': owner.stack.shop.api_keys.warehouse ?? '',
    'idempotency-key': randomUUID(),
  };
  const url = `${owner.stack.file.base_url}/api/2026-10/warehouse/arrivals`;
  expect((await page.request.post(url, { headers, data: arrival })).status()).toBe(201);
  await owner.open(`/returns/${id}`);
  const arrivals = page.getByRole('region', { name: 'Arrivals' });
  await arrivals.getByText('4 units arrived without being announced, and are not paid.').waitFor();
  expect(await arrivals.getByRole('listitem').allInnerTexts()).toEqual([
    expect.stringMatching(/^3 × .+, 1 damaged, 2 not announced: A torn box$/),
    '2 × A hat',
  ]);
  expect(await owner.findings()).toEqual([]);
});

test('the dialog says before processing which goods are paid although they are missing', async () => {
  const { id } = await owner.stack.fixture('open');
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

test('the dialog says before processing that only what arrived or was accepted is paid', async () => {
  const { page, open, findings, close } = await (await newShop(owner)).visit('owner');
  const key = () => ({ idempotencyKey: randomUUID() });
  const policy = { policy: { refundBasis: 'REFUND_BASIS_ARRIVED' }, expectedVersion: '0' };
  await callPortal(page, 'ReturnsService/UpdatePolicy', policy);
  const wanted = { ...key(), description: 'Tests', scopes: ['returns'] };
  const made = await callPortal<{ text: string }>(page, 'ApiKeysService/CreateApiKey', wanted);
  const api = `${owner.stack.file.base_url}/api/2026-10`;
  const headers = { 'x-authorization': made.text };
  const send = async (path: string, data: object) => {
    const options = { headers: { ...headers, 'idempotency-key': randomUUID() }, data };
    return (await page.request.post(`${api}${path}`, options)).json();
  };
  const order = `#T10-${randomInt(1_000, 1_000_000)}`;
  const asked = { headers, params: { order_name: order } };
  const found = await (await page.request.get(`${api}/orders/eligibility`, asked)).json();
  const { provider_line_item_id } = found.lines[0];
  const items = [{ provider_line_item_id, quantity: 2 }];
  const { id } = await send('/returns', { order_name: order, items });
  const shown = await callPortal<{ return: { lineItems: { lineItemId: string }[] } }>(
    page,
    'ReturnsService/FindReturn',
    { returnId: String(id) },
  );
  const line = Number(shown.return.lineItems[0]?.lineItemId);
  await send('/warehouse/arrivals', {
    return_id: id,
    items: [{ line_item_id: line, quantity: 1 }],
  });

  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const dialog = page.getByRole('dialog');
  await open(`/returns/${id}`);
  await press('Process');
  await dialog.getByText(/: 1 of 2 units$/).waitFor();
  await dialog.getByText(/^12\.00 GBP is refunded/).waitFor();
  expect(await findings()).toEqual([]);
  await press('Cancel');
  await press('Set dispositions');
  await dialog.getByLabel('Disposition').selectOption('recycle');
  await dialog.getByLabel('Units').fill('2');
  expect(await findings()).toEqual([]);
  await press('Record');
  await page
    .locator('dd')
    .filter({ hasText: /^Recycle, 2 units/ })
    .waitFor();
  await press('Process');
  await dialog.getByText(/^24\.00 GBP is refunded/).waitFor();
  await close();
});

test('a dialog stays, with what was typed, when a colleague ends the return', async () => {
  const { id } = await owner.stack.fixture('open');
  const { page } = owner;
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await owner.open(`/returns/${id}`);
  await press('More actions');
  await press('Cancel the return');
  const reason = page.getByRole('dialog').getByRole('textbox');
  await reason.fill('The shopper called');
  const key = { idempotencyKey: randomUUID() };
  await callPortal(page, 'ReturnsService/CancelReturn', { returnId: String(id), ...key });
  // After an outage the page reads again.
  await page.context().setOffline(true);
  await page.context().setOffline(false);
  await page.locator('main').getByText('Cancelled', { exact: true }).first().waitFor();
  expect(await reason.inputValue()).toBe('The shopper called');
  await press('Keep the return');
});
