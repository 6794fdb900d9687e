import { randomInt } from 'node:crypto';
import { AxeBuilder } from '@axe-core/playwright';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { callIn, connectStack } from '../kit/journeys/journey.ts';
import { portalForTests } from '../kit/portal/visitor.ts';

// The shopper's pages in a browser: four languages, both colour schemes, phone and wide, with scripts and without.

/** Time limit for a step of a page on a busy machine. Milliseconds. */
const STEP_MS = 60_000;
const HANDLE = 'shop-in-a-browser';

const portal = portalForTests();
const baseUrl = () => `${portal.stack.file.base_url}/r/${HANDLE}`;

beforeAll(async () => {
  const { services, close } = connectStack(portal.stack);
  const shopperPage = { handle: HANDLE, url: baseUrl(), accent: '#ffe600', supportEmail: 'a@b.c' };
  await services.returns.updateSettings({
    ...callIn(portal.stack.shop),
    settings: { shopperPage },
  });
  close();
});

interface Look {
  readonly locale: string;
  readonly scheme: 'light' | 'dark';
  readonly width: number;
  readonly scripts: boolean;
}

const LOOKS: readonly Look[] = [
  { locale: 'en-GB', scheme: 'light', width: 320, scripts: true },
  { locale: 'de-DE', scheme: 'dark', width: 1_440, scripts: true },
  { locale: 'fr-FR', scheme: 'dark', width: 320, scripts: false },
  { locale: 'es-ES', scheme: 'light', width: 1_440, scripts: false },
];

const overflow = (page: Page) =>
  page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth');

describe.each(LOOKS)('in $locale, $scheme, $width pixels, scripts: $scripts', (look) => {
  test('a shopper returns an item and withdraws from a contract', async () => {
    const context = await portal.browser.newContext({
      ...{ locale: look.locale, colorScheme: look.scheme, javaScriptEnabled: look.scripts },
      viewport: { width: look.width, height: 800 },
    });
    context.setDefaultTimeout(STEP_MS);
    const page = await context.newPage();
    const reported: string[] = [];
    page.on('console', (message) => reported.push(message.text()));
    const check = async () => {
      // Axe is a script.
      if (!look.scripts) return;
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
      expect(await overflow(page)).toBeLessThanOrEqual(0);
    };
    await page.goto(baseUrl());
    await check();
    await page.locator('#order').fill(`#T10-${randomInt(1_000, 1_000_000)}`);
    await page.locator('#proof').fill('shopper@example.com');
    // By the keyboard alone.
    await page.locator('#proof').press('Enter');
    const units = page.locator('select[name^=units_]').first();
    await units.selectOption('1');
    await check();
    await page.locator('button[value=check]').click();
    await page.locator('button[value=send]').waitFor();
    await check();
    await page.locator('button[value=send]').click();
    await page.waitForURL(/\/s\/[\w-]{43}$/);
    await check();
    expect(await page.locator('html').getAttribute('lang')).toBe(look.locale.slice(0, 2));
    await page.locator('a.withdraw').click();
    await page.locator('#name').fill('Ada Example');
    await page.locator('#email').fill('ada@example.com');
    await check();
    await page.locator('button[value=check]').click();
    await page.locator('button[value=send]').click();
    await page.getByText('UTC').waitFor();
    await check();
    expect(reported).toEqual([]);
    await context.close();
  });
});
