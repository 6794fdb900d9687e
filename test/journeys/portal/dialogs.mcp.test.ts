import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { untilLoaded, userForTests } from '../../kit/portal/visitor.ts';

// Everything that opens over a page: axe finds nothing in either scheme, and it fits a phone.

const owner = userForTests('owner');
/** Ids of what the dialogs are about. */
let about: Readonly<
  Record<'open' | 'flagged' | 'webhook' | 'key' | 'destination' | 'invited', string>
>;
beforeAll(async () => {
  // A second session, which can be ended.
  await owner.visit('owner');
  about = await prepare();
});
owner.atEnd(async () => about && deleteWebhooks(owner.page, about.webhook));

async function prepare(): Promise<typeof about> {
  const { page } = owner;
  const key = () => ({ idempotencyKey: randomUUID() });
  const webhook = await addWebhook(page, { url: 'https://hooks.example.com/portal' });
  const description = `Key for dialogs ${randomUUID()}`;
  const made = { ...key(), description, scopes: ['returns'] };
  await callPortal(page, 'ApiKeysService/CreateApiKey', made);
  const name = `Place for dialogs ${randomUUID()}`;
  const place = {
    ...key(),
    name,
    type: 'DESTINATION_TYPE_DONATE',
    enabled: false,
    address: { countryCode: 'GB' },
  };
  await callPortal(page, 'DestinationsService/CreateDestination', place);
  const invited = `${randomUUID()}@example.com`;
  const person = { ...key(), email: invited, role: 'analyst' };
  await callPortal(page, 'TeamService/InviteMember', person);
  const [open, flagged] = [await owner.stack.fixture('open'), await owner.stack.fixture('flagged')];
  return {
    open: String(open.id),
    flagged: String(flagged.id),
    webhook,
    key: description,
    destination: name,
    invited,
  };
}

const press = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: true }).first().click();

/** Opens a menu and chooses one of its actions. */
async function choose(page: Page, menu: string | RegExp, action: string): Promise<void> {
  await press(page, menu);
  await press(page, action);
}

type Opening = readonly [name: string, path: () => string, open: (page: Page) => Promise<void>];

const button = (path: () => string, name: () => string): Opening => [
  name().replace(/ undefined$/, ' …'),
  path,
  (page) => press(page, name()),
];
const more = (path: () => string, action: string): Opening => [
  action,
  path,
  (page) => choose(page, 'More actions', action),
];
const at = (path: string) => () => path;
const ofReturn = () => `/returns/${about.open}`;
const inReview = () => `/returns/${about.flagged}`;
const ofWebhook = () => `/webhooks/${about.webhook}`;

const DIALOGS: readonly Opening[] = [
  button(at('/webhooks'), () => 'Add a webhook'),
  button(ofWebhook, () => 'Edit'),
  button(ofWebhook, () => 'Send a test event'),
  button(ofWebhook, () => 'Rotate'),
  more(ofWebhook, 'Send failed deliveries again'),
  more(ofWebhook, 'Send stored events (backfill)'),
  more(ofWebhook, 'Deactivate'),
  more(ofWebhook, 'Delete'),
  button(at('/deliveries'), () => 'Send these again'),
  button(at('/api-keys'), () => 'Create an API key'),
  button(at('/api-keys'), () => `Rotate ${about?.key}`),
  button(at('/api-keys'), () => `Revoke ${about?.key}`),
  [
    'Use another payload version',
    at('/payload-version'),
    (page) => press(page, /^Use \d{4}-\d\d$/),
  ],
  button(ofReturn, () => 'Process'),
  button(ofReturn, () => 'Grade'),
  button(ofReturn, () => 'Set dispositions'),
  more(ofReturn, 'Add a note'),
  more(ofReturn, 'Put into review'),
  more(ofReturn, 'Report fraud'),
  more(ofReturn, 'Cancel the return'),
  button(inReview, () => 'End the review'),
  more(inReview, 'Decline the return'),
  button(at('/team'), () => 'Invite a person'),
  [
    'Change a role',
    at('/team'),
    async (page) => void (await page.getByLabel('Role of analyst').selectOption('warehouse')),
  ],
  button(at('/team'), () => 'Remove analyst'),
  button(at('/team'), () => `New link for ${about?.invited}`),
  button(at('/team'), () => `Withdraw the invitation of ${about?.invited}`),
  button(at('/partner-apps'), () => 'Remove demo-partner-app'),
  button(at('/commerce'), () => 'Connect an endpoint'),
  button(at('/commerce'), () => 'Connect a store at Shopify'),
  button(at('/destinations'), () => 'Add a destination'),
  button(at('/destinations'), () => `Edit ${about?.destination}`),
  button(at('/sessions'), () => 'Sign out everywhere'),
  ['End a session', at('/sessions'), (page) => press(page, /^End the session of /)],
];

describe('a dialog has no error of accessibility in either scheme, and fits a phone', () => {
  test.each(DIALOGS)('%s', async (_name, path, open) => {
    const { page } = owner;
    await owner.open(path());
    await open(page);
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await untilLoaded(page);
    expect(await owner.findings()).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  test('that shows a new API key once', async () => {
    const { page } = owner;
    await owner.open('/api-keys');
    await press(page, 'Create an API key');
    const name = `Key of dialogs ${randomUUID()}`;
    await page.getByLabel('Which system will use it?').fill(name);
    await page.locator('input[type=checkbox][value="returns:submit"]').check();
    await press(page, 'Create the key');
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/^rms_/).waitFor();
    await dialog.getByText('Try it').click();
    const example = dialog.getByRole('region', { name: 'Example of a call' });
    await example.getByText(/\/policy/).waitFor();
    expect(await owner.findings()).toEqual([]);
    await press(page, 'I have copied it');
  });

  test('with errors at its fields', async () => {
    const { page } = owner;
    await owner.open('/webhooks');
    await press(page, 'Add a webhook');
    await page.getByRole('textbox', { name: /^Address/ }).fill('https://10.0.0.1/');
    await press(page, 'Add the webhook');
    await page.getByRole('dialog').locator('[aria-invalid=true]').first().waitFor();
    // The browser reports the 400 as an error.
    owner.problems();
    expect(await owner.findings()).toEqual([]);
  });
});

const MENUS: readonly (readonly [string, () => string, string | RegExp])[] = [
  ['of the account', at('/returns'), /^Account of /],
  ['of a return', ofReturn, 'More actions'],
  ['of a webhook', ofWebhook, 'More actions'],
  ['of the export', at('/audit-log'), 'Export'],
];

describe('a menu has no error of accessibility in either scheme, and fits a phone', () => {
  test.each(MENUS)('%s', async (_name, path, name) => {
    await owner.open(path());
    await press(owner.page, name);
    await owner.page.locator('[data-item]:visible').first().waitFor();
    expect(await owner.findings()).toEqual([]);
  });

  test('of the shops', async () => {
    const both = await owner.visit('two_shops');
    await both.open('/returns');
    await press(both.page, /^Shop: /);
    expect(await both.findings()).toEqual([]);
    await both.close();
  });

  test('of the pages, on a phone', async () => {
    const { page } = owner;
    await owner.open('/returns');
    await page.setViewportSize({ width: 390, height: 900 });
    await press(page, 'Open the navigation');
    await page.getByRole('link', { name: 'Audit log' }).waitFor();
    expect(await owner.findings()).toEqual([]);
  });
});

test('a message after a change, with a way back, has no error of accessibility in either scheme', async () => {
  const { page } = owner;
  await owner.open('/destinations');
  await press(page, `Edit ${about.destination}`);
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').first().fill(`${about.destination} 2`);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Undo' }).waitFor();
  expect(await owner.findings()).toEqual([]);
});
