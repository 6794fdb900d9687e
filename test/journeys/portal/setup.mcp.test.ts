import { afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { startFaultyEndpoint } from '../../kit/commerce/faulty-endpoint.ts';
import { callPortal } from '../../kit/portal/call.ts';
import { type NewShop, newShop } from '../../kit/portal/new-shop.ts';
import { portalForTests, type Visitor } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// A merchant's owner sets up the shop: settings, and the commerce platform. Nobody of the operator helps.

const portal = portalForTests();
let shop: NewShop;
let owner: Visitor;
beforeAll(async () => {
  shop = await newShop(portal);
});
beforeEach(async () => {
  owner = await shop.visit('owner');
});
afterEach(() => owner?.close());

const press = (name: string) =>
  owner.page.getByRole('button', { name, exact: true }).first().click();
const dialog = () => owner.page.getByRole('dialog');

/** The newest call with these words in the audit log, that changed a field if one is named. */
const audited = (what: string, changed?: string) =>
  until(async () => {
    const { entries } = await callPortal<{
      entries: { what: string; outcome: string; changes?: { field: string; to?: string }[] }[];
    }>(owner.page, 'AuditService/ListAuditEntries', {});
    return entries.find(
      (entry) =>
        entry.what === what &&
        entry.outcome === 'done' &&
        (changed === undefined || entry.changes?.some(({ field }) => field === changed)),
    );
  });

describe('the settings', () => {
  const settingsNow = async () => {
    type Answer = { settings: Record<string, unknown> };
    return (await callPortal<Answer>(owner.page, 'ReturnsService/GetSettings', {})).settings;
  };

  test('are changed with what was edited only, recorded, and taken back', async () => {
    const { page, open, findings } = owner;
    await open('/settings');
    expect(await findings()).toEqual([]);
    await page.getByLabel('By a webhook').check();
    await page.getByLabel('Days until a return expires').fill('14');
    // A colleague changes something else in the meantime.
    const others = { settings: { parcel: { heightCm: 44 } } };
    await callPortal(page, 'ReturnsService/UpdateSettings', others);
    await press('Save');
    await page.getByText('The settings are saved.').waitFor();
    expect(await settingsNow()).toMatchObject({
      restockMode: 'RESTOCK_MODE_WEBHOOK',
      expiryDays: 14,
      parcel: { heightCm: 44 },
    });
    const { changes = [] } = await audited('Change the settings of the shop', 'restock_mode');
    expect(changes.map(({ field }) => field).toSorted()).toEqual(['expiry_days', 'restock_mode']);
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('It is as it was before.').waitFor();
    expect(await settingsNow()).toMatchObject({ expiryDays: 28 });
  });

  test('that a colleague changed at the same time are shown, and not overwritten', async () => {
    const { page, open, findings } = owner;
    await open('/settings');
    const days = page.getByLabel('Days until a return expires');
    await days.fill('20');
    const theirs = { settings: { expiryDays: 30 } };
    await callPortal(page, 'ReturnsService/UpdateSettings', theirs);
    await press('Save');
    await page.getByText('A colleague has changed this in the meantime').waitFor();
    await page.getByText('the days until a return expires: now 30').waitFor();
    expect(await settingsNow()).toMatchObject({ expiryDays: 30 });
    expect((await findings()).filter((one) => !one.includes('409'))).toEqual([]);
    await press('Keep mine');
    await press('Save');
    await page.getByText('The settings are saved.').waitFor();
    expect(await settingsNow()).toMatchObject({ expiryDays: 20 });
  });

  test('that are not saved are asked for before the page is left', async () => {
    const { page, open, findings } = owner;
    await open('/settings');
    await page.getByLabel('Days until a return expires').fill('9');
    const link = page.getByRole('link', { name: 'Returns', exact: true });
    await link.click();
    await dialog().getByText('They are lost when you leave it.').waitFor();
    expect(await findings()).toEqual([]);
    await dialog().getByRole('button', { name: 'Stay' }).click();
    expect(await page.getByLabel('Days until a return expires').inputValue()).toBe('9');
    await link.click();
    await dialog().getByRole('button', { name: 'Leave' }).click();
    await page.waitForURL(/\/returns$/);
  });

  test('are of the owner and admins only', async () => {
    const developer = await shop.visit('developer');
    for (const path of ['/settings', '/commerce']) {
      await developer.open(path);
      await developer.page.getByText('Your role does not include this page').waitFor();
    }
    await developer.close();
  });
});

describe('the commerce platform', () => {
  afterEach(() => callPortal(owner.page, 'CommerceService/Disconnect', { force: true }));

  /** Connects an endpoint, and returns the secret, which is shown once. */
  async function connected(url: string): Promise<string> {
    await owner.open('/commerce');
    await press('Connect an endpoint');
    await dialog().getByLabel('Address').fill(url);
    await dialog().getByRole('button', { name: 'Connect', exact: true }).click();
    const secret = await dialog()
      .getByText(/^whsec_/)
      .innerText();
    expect(await owner.findings()).toEqual([]);
    await press('I have stored it');
    return secret;
  }

  test('is connected, checked while the page shows each result, rotated and disconnected', async () => {
    const { page, findings, open } = owner;
    const secret = await connected('http://127.0.0.1:9/');
    const endpoint = await startFaultyEndpoint(secret, 'forgets keys');
    await press('Change the address');
    await dialog().getByLabel('Address').fill(endpoint.url);
    await dialog().getByRole('button', { name: 'Change the address' }).click();
    await page.getByText(endpoint.url).first().waitFor();
    await audited('Connect the commerce platform');

    await press('Check the connection');
    await page.getByText(/^\d+ of 14 are answered/).waitFor();
    // The check goes on without the page.
    await open('/team');
    await open('/commerce');
    await page.getByText(/^\d+ questions? of 14 failed\.$/).waitFor({ timeout: 60_000 });
    const steps = page.getByRole('listitem');
    await steps
      .filter({ hasText: 'Makes nothing again for a repeated key' })
      .getByText('Failed')
      .waitFor();
    await steps.filter({ hasText: 'Keeps amounts exactly' }).getByText('Passed').waitFor();
    expect(await findings()).toEqual([]);
    await audited('Check the connection to the commerce platform');
    endpoint.stop();

    await press('Rotate the secret');
    await dialog().getByRole('button', { name: 'Make a new secret' }).waitFor();
    expect(await findings()).toEqual([]);
    await dialog().getByRole('button', { name: 'Make a new secret' }).click();
    expect(
      await dialog()
        .getByText(/^whsec_/)
        .innerText(),
    ).not.toBe(secret);
    await press('I have stored it');
    expect(await page.getByText(/^whsec_/).count()).toBe(0);
    await audited('Rotate the secret of the commerce platform');

    await press('Disconnect');
    await dialog().getByText('Returns are not refunded any more').waitFor();
    expect(await findings()).toEqual([]);
    await dialog().getByRole('button', { name: 'Disconnect' }).click();
    await page.getByText('Nothing is connected yet').waitFor();
    await audited('Disconnect the commerce platform');
  }, 120_000);

  test.each(['http://10.0.0.1/', 'https://192.168.1.1/', 'https://[::1]/', 'https://localhost/'])(
    'is not connected at the private address %s',
    async (url) => {
      await owner.open('/commerce');
      await press('Connect an endpoint');
      await dialog().getByLabel('Address').fill(url);
      await dialog().getByRole('button', { name: 'Connect', exact: true }).click();
      const field = dialog().getByLabel('Address');
      await until(async () => (await field.getAttribute('aria-invalid')) === 'true');
      const call = callPortal(owner.page, 'CommerceService/GetConnection', {});
      expect(await call).toEqual({});
    },
  );

  test('at Shopify begins only in the browser of the person who asked for it', async () => {
    const { page, open, findings } = owner;
    await open('/commerce');
    await press('Connect a store at Shopify');
    await dialog().getByLabel('Domain of the store').fill('mugs-of-london.myshopify.com');
    await dialog().getByRole('button', { name: 'Begin the install' }).click();
    const link = dialog().getByRole('link', { name: 'Open Shopify' });
    await link.waitFor();
    expect(await findings()).toEqual([]);
    const href = new URL((await link.getAttribute('href')) ?? '', page.url()).href;
    await audited('Begin the install at Shopify');
    const admin = await shop.visit('admin');
    const refused = await admin.page.context().request.get(href, { maxRedirects: 0 });
    expect([refused.status(), await refused.text()]).toEqual([
      403,
      expect.stringContaining('This link is for somebody else'),
    ]);
    await admin.close();
    const begun = await page.context().request.get(href, { maxRedirects: 0 });
    expect(begun.status()).toBe(303);
    expect(begun.headers().location).toMatch(
      /^https:\/\/mugs-of-london\.myshopify\.com\/admin\/oauth\/authorize\?/,
    );
  });
});
