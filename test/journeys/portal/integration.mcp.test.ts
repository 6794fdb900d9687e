import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { addWebhook, callPortal } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';
import { startReceiver } from '../../kit/webhooks/receiver.ts';

// What a developer asks the portal about versions and keys.

const developer = userForTests('developer');

/** Returns the address of a new webhook. */
async function newUrl(topic: string, trigger: string, receiver = 'https://hooks.example.com/') {
  const url = new URL(`/${randomUUID()}`, receiver).href;
  await addWebhook(developer.page, { topic, trigger, url });
  return url;
}

/** Sets the version of the shop, whatever it is now. Returns the one of before. */
async function setVersion(version: string): Promise<string> {
  const { page } = developer;
  const get = 'PayloadsService/GetPayloadVersion';
  const before = (await callPortal<{ version: string }>(page, get, {})).version;
  if (before !== version) {
    const change = { version, expectedVersion: before };
    await callPortal(page, 'WebhooksService/SetPayloadVersion', change);
  }
  return before;
}

describe('the payload version', () => {
  let before: string;
  beforeAll(async () => {
    before = await setVersion('2026-07');
  });
  afterAll(() => setVersion(before));

  test('says what it changes, for which webhooks, and shows a difference at once', async () => {
    const { page } = developer;
    const changing = await newUrl('return', 'return.closed');
    const staying = await newUrl('label', 'label.created');
    await developer.open('/payload-version');
    const main = page.locator('main');
    await main.getByText('is sent as a group of fields instead of one word').first().waitFor();
    await main.getByText('of a line item is an object').first().waitFor();
    await main.getByText('− ').first().waitFor();
    const rowOf = (url: string) => main.getByRole('row').filter({ hasText: url });
    await rowOf(staying).getByText('Stays the same').waitFor();
    await rowOf(changing)
      .getByRole('link', { name: /^Show what changes/ })
      .click();
    const event = page.getByLabel('Event', { exact: true });
    expect(await event.inputValue()).toBe('example:return.closed');
    await main
      .getByRole('region', { name: 'Differences' })
      .getByText('condition_category')
      .first()
      .waitFor();
    const groups = page.locator('main optgroup');
    expect(await groups.first().getAttribute('label')).toMatch(/^Differ between/);
    await event.selectOption('example:label.created');
    await main.getByRole('link', { name: 'Show one that differs' }).click();
    await main.getByRole('region', { name: 'Differences' }).waitFor();
    expect(developer.problems()).toEqual([]);
  });

  test('is tested beside each webhook, and the change names the webhooks with their tests', async () => {
    const { page } = developer;
    const receiver = await startReceiver();
    try {
      const tested = await newUrl('return', 'return.closed', receiver.url);
      const untested = await newUrl('return', 'return.created');
      await developer.open('/payload-version');
      const row = page.locator('main').getByRole('row').filter({ hasText: tested });
      await row.getByRole('button', { name: /^Send a test in 2026-10/ }).click();
      await row.getByText(/^accepted \(HTTP 200\) on /).waitFor();
      expect(receiver.received).toHaveLength(1);
      expect(new URL(page.url()).pathname).toBe('/portal/payload-version');
      expect(await developer.findings()).toEqual([]);
      // A colleague in another browser sees the same test.
      const owner = await developer.visit('owner');
      await owner.open('/payload-version');
      const seen = owner.page.locator('main').getByRole('row').filter({ hasText: tested });
      await seen.getByText(/^accepted \(HTTP 200\) on /).waitFor();
      await seen.getByRole('link', { name: 'See the delivery' }).click();
      await owner.page.getByRole('heading', { name: 'Delivery of return.closed' }).waitFor();
      await owner.page.getByText('2026-10', { exact: true }).first().waitFor();
      expect(owner.problems()).toEqual([]);
      await owner.close();
      await page.getByRole('button', { name: 'Use 2026-10' }).first().click();
      const named = page.getByRole('dialog').getByRole('listitem');
      await named.filter({ hasText: tested }).getByText('accepted (HTTP 200)').waitFor();
      await named.filter({ hasText: untested }).getByText('not tested').waitFor();
      expect(await developer.findings()).toEqual([]);
      await page.getByRole('dialog').getByRole('button', { name: 'Use 2026-10' }).click();
      // The other way round, the comparison is shown only on request.
      const compare = page.getByRole('link', { name: 'Compare with 2026-07' });
      await compare.waitFor();
      expect(await page.getByText('Webhooks that get another payload').count()).toBe(0);
      // What the change concerned stays in sight with its tests, also after the reader was elsewhere.
      const rowOf = (url: string) => page.locator('main').getByRole('row').filter({ hasText: url });
      await page.getByText(/^Webhooks whose payload changed from 2026-07 to 2026-10: \d/).waitFor();
      await rowOf(untested).getByText('not tested').waitFor();
      expect(await developer.findings()).toEqual([]);
      await rowOf(tested).getByRole('link', { name: 'See the delivery' }).click();
      await page.getByRole('heading', { name: 'Delivery of return.closed' }).waitFor();
      await page.goBack();
      await rowOf(tested).getByText('accepted (HTTP 200)').waitFor();
      await rowOf(tested)
        .getByRole('link', { name: 'Show what changed for return.closed' })
        .click();
      await page.getByText('In 2026-10: ').first().waitFor();
      expect(await page.getByLabel('From', { exact: true }).inputValue()).toBe('2026-07');
      await rowOf(tested).getByText('accepted (HTTP 200)').waitFor();
      await page.goBack();
      await compare.click();
      await page.getByText('Webhooks that get another payload in 2026-07').waitFor();
      expect(developer.problems()).toEqual([]);
    } finally {
      await receiver.stop();
    }
  });
});

test('a rotated key is below the new one, says when it ends, and can be ended now', async () => {
  const { page } = developer;
  const description = `Key to rotate ${randomUUID()}`;
  const made = { idempotencyKey: randomUUID(), description, scopes: ['developer_tools'] };
  const { key, text } = await callPortal<{ key: { id: string }; text: string }>(
    page,
    'ApiKeysService/CreateApiKey',
    made,
  );
  await developer.open('/api-keys');
  await page.getByRole('button', { name: `Rotate ${description}` }).click();
  await page.getByRole('button', { name: 'Make a new key' }).click();
  await page.getByRole('button', { name: 'I have copied it' }).click();
  const rows = page.getByRole('row').filter({ hasText: description });
  await rows.nth(1).waitFor();
  const all = await page.getByRole('row').allInnerTexts();
  const first = all.findIndex((row) => row.includes(description));
  expect(all[first]).not.toContain(key.id);
  expect(all[first + 1]).toContain(key.id);
  // In the first half second it is a whole day.
  expect(all[first + 1]).toMatch(/Replaced\s+ends (in 1 day|in 23 hours)/);
  await page.getByRole('button', { name: `End now: the former key of ${description}` }).click();
  await page.getByRole('button', { name: 'End the former key', exact: true }).click();
  await rows.filter({ hasText: key.id }).getByText('Revoked').waitFor();
  const url = `${developer.stack.file.base_url}/api/2026-10/warehouse/return/details?return_id=1`;
  const { status } = await fetch(url, { headers: { 'x-authorization': text } });
  expect(status).toBe(401);
  expect(developer.problems()).toEqual([]);
});

test('who still calls the old version is a page with the last call and the day when the version ends', async () => {
  const { page } = developer;
  const description = `Key that calls ${randomUUID()}`;
  const made = { idempotencyKey: randomUUID(), description, scopes: ['developer_tools'] };
  const { key, text } = await callPortal<{ key: { id: string }; text: string }>(
    page,
    'ApiKeysService/CreateApiKey',
    made,
  );
  const url = `${developer.stack.file.base_url}/api/2026-07/webhooks`;
  expect((await fetch(url, { headers: { 'x-authorization': text } })).status).toBe(200);
  // Uses are written once a minute.
  await until(
    async (see) =>
      see(JSON.stringify(await callPortal(page, 'UsageService/ListVersionUsage', {}))).includes(
        description,
      ),
    { withinMs: 150_000, everyMs: 1_000 },
  );
  await developer.open('/usage');
  const row = page.getByRole('row').filter({ hasText: description });
  await row.getByText('GET /webhooks').waitFor();
  expect(await row.innerText()).toContain('2026-07');
  expect(await row.locator('time').count()).toBe(2);
  expect(await row.getByText('Active').count()).toBe(0);
  await page.getByText(/^2026-07, which ends on .*: \d+ keys? or apps? calls? it$/).waitFor();
  await until(
    async (see) => {
      const { keys } = await callPortal<{ keys: { description: string; lastUsedAt?: string }[] }>(
        page,
        'ApiKeysService/ListApiKeys',
        {},
      );
      return see(keys.find((one) => one.description === description))?.lastUsedAt !== undefined;
    },
    { withinMs: 90_000, everyMs: 1_000 },
  );
  await developer.open('/api-keys');
  await page.getByRole('button', { name: `Revoke ${description}` }).click();
  const warning = page.getByRole('dialog').getByRole('alert');
  await warning.getByText('A system uses this key').waitFor();
  await warning.getByText('GET /webhooks').waitFor();
  await callPortal(page, 'ApiKeysService/RevokeApiKey', { keyId: key.id });
  await developer.open('/usage');
  await row.getByText('Key revoked').waitFor();
  expect(await developer.findings()).toEqual([]);
});
