import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { callPortal } from '../../kit/portal/call.ts';
import { addTeamMember } from '../../kit/portal/gateway-pool.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// What a form sends when somebody else changes the same object, and what it does with text that is too long.

const DAY_MS = 86_400_000;

const owner = userForTests('owner');

const call = <T>(name: string, body: object) =>
  callPortal<T>(owner.page, name, { idempotencyKey: crypto.randomUUID(), ...body });

const dialogOf = (page: Page) => page.getByRole('dialog');

interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly description?: string;
  readonly trigger: string;
}

test('a change of a webhook leaves what a colleague changed while the form was open, and so does its undo', async () => {
  const { page, open } = owner;
  const url = `https://example.com/${crypto.randomUUID()}`;
  const made = { url, topic: 'return', trigger: 'return.closed', description: 'Old' };
  const { subscription: webhook } = await call<{ subscription: Webhook }>(
    'WebhooksService/CreateSubscription',
    made,
  );
  const webhookId = webhook.id;
  const read = async () =>
    (
      await call<{ subscription: Webhook }>('WebhooksService/GetSubscription', {
        subscriptionId: webhookId,
      })
    ).subscription;

  await open(`/webhooks/${webhookId}`);
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  const dialog = dialogOf(page);
  await dialog.getByLabel('Description').fill('New');
  await call('WebhooksService/UpdateSubscription', {
    subscriptionId: webhookId,
    url: `${url}/moved`,
  });
  await dialog.getByText(`The address is now “${url}/moved”.`).waitFor({ timeout: 60_000 });
  expect(await owner.findings()).toEqual([]);
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('description changed.').waitFor();
  expect(await read()).toMatchObject({ url: `${url}/moved`, description: 'New' });

  await call('WebhooksService/UpdateSubscription', {
    subscriptionId: webhookId,
    trigger: 'return.created',
  });
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('It is as it was before.').waitFor();
  expect(await read()).toMatchObject({
    url: `${url}/moved`,
    description: 'Old',
    trigger: 'return.created',
  });
  await call('WebhooksService/DeleteSubscription', { subscriptionId: webhookId });
});

interface Destination {
  readonly id: string;
  readonly enabled?: boolean;
  readonly address: { readonly city?: string; readonly phone?: string };
}

test('a change of a destination leaves what a colleague changed while the form was open, and so does its undo', async () => {
  const { page, open } = owner;
  const name = `Warehouse ${crypto.randomUUID()}`;
  const made = {
    name,
    address: { city: 'Leeds', phone: '1' },
    enabled: true,
  };
  const { destination } = await call<{ destination: Destination }>(
    'DestinationsService/CreateDestination',
    made,
  );
  const destinationId = destination.id;
  const read = async () =>
    (
      await call<{ destination: Destination }>('DestinationsService/GetDestination', {
        destinationId,
      })
    ).destination;

  await open(`/destinations?edit=${destinationId}`);
  const dialog = dialogOf(page);
  await dialog.getByLabel('Phone').fill('2');
  const moved = {
    destinationId,
    name: `${name}, closed`,
    enabled: false,
    address: { city: 'York', phone: '1' },
  };
  const seen = page.waitForResponse(async (response) => (await response.text()).includes('York'));
  await call('DestinationsService/UpdateDestination', moved);
  await seen;
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The destination is changed.').waitFor();
  // A field of false is not in the JSON.
  expect(await read()).toMatchObject({ name: moved.name, address: { city: 'York', phone: '2' } });
  expect((await read()).enabled).toBeUndefined();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('It is as it was before.').waitFor();
  expect(await read()).toMatchObject({ name: moved.name, address: { city: 'York', phone: '1' } });
  expect((await read()).enabled).toBeUndefined();
});

test('the undo of a change of a role leaves what a colleague changed since, and says what the role is now', async () => {
  const { page, open } = owner;
  const email = `${crypto.randomUUID()}@example.com`;
  const userId = await addTeamMember(owner.stack, { email, role: 'analyst' });
  await open('/team');
  const role = page.getByLabel(`Role of ${email}`);
  await role.selectOption('warehouse');
  await dialogOf(page).getByRole('button', { name: 'Change the role' }).click();
  const undo = page.getByRole('button', { name: 'Undo' });
  await undo.waitFor();
  await call('TeamService/ChangeRole', { userId, role: 'developer' });
  await undo.click();
  await page.getByText('The role of this person is now developer: somebody else').waitFor();
  await until(async (see) => see(await role.inputValue()) === 'developer');
  await call('TeamService/RemoveMember', { userId });
  // The browser reports the 400 of the undo as an error.
  owner.problems();
});

test('a browser whose clock is slow by 40 days makes a key of 30 days, and shows times as they are', async () => {
  const { page, open } = owner;
  await page.clock.setFixedTime(Date.now() - 40 * DAY_MS);
  await open('/api-keys');
  await page.getByRole('button', { name: 'Create an API key' }).first().click();
  const dialog = dialogOf(page);
  const description = `Key ${crypto.randomUUID()}`;
  await dialog.getByLabel('Which system will use it?').fill(description);
  await dialog.getByLabel('When does it end?').selectOption('30');
  await dialog.locator('input[value=carts]').check();
  await dialog.getByRole('button', { name: 'Create the key' }).click();
  await dialog.getByText('rms_', { exact: false }).first().waitFor();
  const { keys } = await call<{ keys: { id: string; description: string; expiresAt?: string }[] }>(
    'ApiKeysService/ListApiKeys',
    {},
  );
  const key = keys.find((one) => one.description === description);
  const days = (Date.parse(key?.expiresAt ?? '') - Date.now()) / DAY_MS;
  expect(days).toBeGreaterThan(29.9);
  expect(days).toBeLessThanOrEqual(30);

  await open('/sessions');
  await page.locator('main tbody tr').first().waitFor();
  expect(
    await page
      .locator('main')
      .getByText(/in \d+ (?:days|hours)/)
      .count(),
  ).toBe(0);
  await page.clock.setFixedTime(Date.now());
  await call('ApiKeysService/RevokeApiKey', { keyId: key?.id });
});

test('no field cuts what is pasted: a text that is too long says so, and stays', async () => {
  const { page, open } = owner;
  const { id } = await owner.stack.fixture('open');
  await open(`/returns/${id}`);
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const dialog = dialogOf(page);
  await press('More actions');
  await press('Add a note');
  const note = dialog.getByRole('textbox', { name: 'Note' });
  await note.fill('n'.repeat(65_536));
  await dialog.getByText(/It has 65.536 characters/).waitFor();
  expect((await note.inputValue()).length).toBe(65_536);
  const long = `${'n'.repeat(5_000)} end`;
  await note.fill(long);
  await dialog.getByRole('button', { name: 'Add the note' }).click();
  await page.getByText('The note is in the timeline.').waitFor();
  const { entries } = await call<{ entries: { note?: string }[] }>('ReturnsService/GetTimeline', {
    returnId: id,
    pageSize: 50,
  });
  expect(JSON.stringify(entries)).toContain(long);

  await press('Grade');
  await dialog.getByLabel('Note').first().fill('Scratched');
  await dialog.getByText('Choose, so that the note is recorded.').waitFor();
  expect(await dialog.getByRole('button', { name: 'Record' }).isDisabled()).toBe(true);
  await dialog.getByRole('combobox').first().selectOption('grade_b');
  expect(await dialog.getByRole('button', { name: 'Record' }).isDisabled()).toBe(false);
  expect(await owner.findings()).toEqual([]);
});

test('the export for spreadsheets is marked as UTF-8', async () => {
  const { page, open } = owner;
  await open('/audit-log');
  const started = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByText('As CSV, for a spreadsheet').click();
  const path = await (await started).path();
  const file = await readFile(path);
  const begin = Buffer.from('\u{feff}"id"');
  expect(file.subarray(0, begin.length)).toEqual(begin);
});

test('goods of an earlier parcel that is on its way are named before the return is paid', async () => {
  const { page, open } = owner;
  const { id } = await owner.stack.fixture('open');
  await page.route(/ReturnsService\/FindReturn$/, async (route) => {
    const response = await route.fetch();
    const { return: shown } = await response.json();
    const [{ returnedAt: _, ...line }] = shown.lineItems;
    const lineItems = [
      { ...line, lineItemId: '1', title: 'Shirt' },
      { ...line, lineItemId: '2', title: 'Shoes' },
    ];
    const labels = [
      { id: '11', status: 'LABEL_STATUS_IN_TRANSIT', lineItemIds: ['2'] },
      { id: '12', status: 'LABEL_STATUS_DELIVERED', lineItemIds: ['1'] },
    ];
    await route.fulfill({ response, json: { return: { ...shown, lineItems, labels } } });
  });
  await open(`/returns/${id}`);
  await page.getByRole('button', { name: 'Process', exact: true }).click();
  const warning = dialogOf(page)
    .getByRole('alert')
    .filter({ hasText: 'Not all goods have arrived' });
  await warning.getByText('“Shoes”: In transit').waitFor();
  expect(await warning.getByText('Shirt').count()).toBe(0);
  await page.unrouteAll();
});
