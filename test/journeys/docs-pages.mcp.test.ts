import { AxeBuilder } from '@axe-core/playwright';
import { describe, expect, test } from '@jest/globals';
import type { Locator, Page } from 'playwright-core';
import { DOCS_PATHS } from '../../gateway/docs/paths.ts';
import { personOf } from '../kit/mcp/shared-stack.ts';
import { portalForTests } from '../kit/portal/visitor.ts';

/** Time limit for a step of a page on a busy machine. Milliseconds. */
const STEP_MS = 60_000;

const portal = portalForTests();

type Scheme = 'light' | 'dark';

/** Opens a page of the documentation, and collects what the browser reports: errors and stopped resources. */
async function visit(
  path: string,
  o: { readonly width: number; readonly scheme?: Scheme },
): Promise<{ page: Page; reported: string[] }> {
  const context = await portal.browser.newContext({
    viewport: { width: o.width, height: 900 },
    colorScheme: o.scheme ?? 'light',
  });
  context.setDefaultTimeout(STEP_MS);
  const reported: string[] = [];
  context.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) reported.push(message.text());
  });
  context.on('weberror', (failure) => reported.push(String(failure.error())));
  const page = await context.newPage();
  await page.goto(`${portal.stack.file.base_url}${path}`);
  return { page, reported };
}

/** By how much the page is wider than the window. Pixels. */
const overflow = (page: Page) =>
  page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth');

const { reference, icon: _icon, oauthRedirect: _redirect, ...texts } = DOCS_PATHS;

describe.each(Object.values(texts))('%s', (path) => {
  test.each([320, 768, 1440])('is not wider than a screen of %s pixels', async (width) => {
    const { page, reported } = await visit(path, { width });
    expect({ wider: await overflow(page), reported }).toEqual({ wider: 0, reported: [] });
    await page.context().close();
  });

  test.each(['light', 'dark'] as const)('is accessible in %s colours', async (scheme) => {
    const { page } = await visit(path, { width: 320, scheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
    await page.context().close();
  });
});

test('a sample has a button that copies it', async () => {
  const { page, reported } = await visit(DOCS_PATHS.quickstart, { width: 320 });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const samples = page.locator('pre');
  const buttons = page.getByRole('button', { name: 'Copy' });
  expect(await buttons.count()).toBe(await samples.count());
  await buttons.first().click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  const copied = await page.evaluate<string>('navigator.clipboard.readText()');
  expect(copied).toBe(await samples.first().textContent());
  expect(copied).toMatch(/^BASE=http.*\nKEY=/);
  expect(reported).toEqual([]);
  await page.context().close();
});

test('an entry of the changelog has an address, which shows it', async () => {
  const { page } = await visit(`${DOCS_PATHS.changelog}#2026-10-breaking`, { width: 320 });
  const entry = page.locator(':target');
  expect(await entry.innerText()).toContain('Breaking.');
  const box = await entry.boundingBox();
  expect(box?.y).toBeLessThan(900);
  await page.context().close();
});

describe('the API reference', () => {
  /** The part of an operation, opened. */
  async function opened(page: Page, id: string): Promise<Locator> {
    const block = page.locator(`.opblock[id$="-${id}"]`);
    await block.locator('.opblock-summary-control').first().click();
    await block.getByRole('button', { name: 'Try it out' }).click();
    return block;
  }

  /** Sends the request with the values that the page shows, and returns the status of the response. */
  async function execute(block: Locator): Promise<string> {
    await block.getByRole('button', { name: 'Execute' }).click();
    const status = block.locator('.live-responses-table tbody .response-col_status').first();
    return (await status.innerText()).trim();
  }

  /** Signs in as a developer of the demo shop, and returns the window with the consent page. */
  async function signIn(page: Page): Promise<Page> {
    await page.locator('button.authorize').first().click();
    const [sign] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('button', { name: 'Apply given OAuth2 credentials' }).click(),
    ]);
    const { email, password } = personOf(portal.stack, 'developer');
    await sign.getByLabel('E-mail address').fill(email);
    await sign.getByLabel('Password').fill(password);
    await sign.getByRole('button', { name: 'Sign in' }).click();
    return sign;
  }

  test('with a key of the demo shop, first requests succeed with the values of the page', async () => {
    const { page, reported } = await visit(`${reference}/2026-10`, { width: 1440 });
    await page.locator('button.authorize').first().click();
    await page.locator('#api_key_value').fill(portal.stack.shop.api_keys.all ?? '');
    await page.getByRole('button', { name: 'Apply credentials' }).click();
    await page.locator('.btn-done').first().click();
    const operations = ['listWebhooks', 'getWebhook', 'getReturnDetails', 'getDestination'];
    operations.push('previewReplay', 'createCart');
    const statuses: [string, string][] = [];
    for (const id of operations) {
      const block = await opened(page, id);
      statuses.push([id, await execute(block)]);
      // Swagger UI renders everything that is open again, which takes seconds on a busy machine.
      await block.locator('.opblock-summary-control').first().click();
    }
    expect(statuses).toEqual(operations.map((id) => [id, '200']));
    expect(reported).toEqual([]);
    await page.context().close();
  });

  test('signs in a developer, and sends the token', async () => {
    const { page, reported } = await visit(reference, { width: 1440 });
    const consent = await signIn(page);
    expect(await consent.getByRole('heading', { level: 1 }).innerText()).toContain('API reference');
    await Promise.all([
      consent.waitForEvent('close'),
      consent.getByRole('button', { name: 'Allow' }).click(),
    ]);
    await page.getByRole('button', { name: 'Remove authorization' }).waitFor();
    await page.locator('.btn-done').last().click();
    const block = await opened(page, 'listWebhooks');
    expect(await execute(block)).toBe('200');
    expect(await block.locator('.curl').first().innerText()).toContain('Authorization: Bearer ey');
    expect(reported).toEqual([]);
    await page.context().close();
  });

  test('says so when the person denies', async () => {
    const { page } = await visit(reference, { width: 1440 });
    const consent = await signIn(page);
    await consent.getByRole('button', { name: 'Deny' }).click();
    await page.getByText('access_denied').first().waitFor();
    await page.context().close();
  });

  test.each([320, 768])('is not wider than a screen of %s pixels', async (width) => {
    const { page, reported } = await visit(reference, { width });
    await page.locator('.opblock').first().waitFor();
    expect(await overflow(page)).toBe(0);
    expect(reported).toEqual([]);
    await page.context().close();
  });

  test.each(['listReturns', 'createWebhook'])(
    'shows %s, its request and its response on a phone',
    async (id) => {
      const { page, reported } = await visit(`${reference}/2026-10`, { width: 390 });
      await page.locator('button.authorize').first().click();
      const dialog = page.locator('.dialog-ux .modal-ux');
      await dialog.waitFor();
      expect(await overflow(page)).toBe(0);
      expect((await dialog.boundingBox())?.width).toBeLessThanOrEqual(390);
      await page.locator('.btn-done').first().click();
      const block = await opened(page, id);
      expect(await overflow(page)).toBe(0);
      await block.getByRole('button', { name: 'Execute' }).click();
      await block.locator('.live-responses-table').first().waitFor();
      expect(await overflow(page)).toBe(0);
      // What is wider than the phone scrolls by itself: the buttons stay where a thumb reaches them.
      for (const name of ['Execute', 'Cancel', 'Clear']) {
        const box = await block.getByRole('button', { name }).first().boundingBox();
        expect({ name, right: (box?.x ?? 0) + (box?.width ?? 0) <= 390 }).toEqual({
          name,
          right: true,
        });
      }
      // Without a credential, so that nothing is created.
      expect(reported.filter((text) => !text.includes('401'))).toEqual([]);
      await page.context().close();
    },
  );

  test.each(['2026-07', '2026-10', 'unstable'])('shows %s at its address', async (version) => {
    const { page } = await visit(`${reference}/${version}`, { width: 1440 });
    await page.getByText(`/openapi/${version}.json`).waitFor();
    await page.context().close();
  });
});
