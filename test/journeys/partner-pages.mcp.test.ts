import { AxeBuilder } from '@axe-core/playwright';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser, walkThrough } from '../kit/mcp/browser.ts';
import { personOf, sharedStack } from '../kit/mcp/shared-stack.ts';
import type { OpenStack } from '../kit/stack.ts';

let stack: OpenStack;
let browser: Browser;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
}, 180_000);
afterAll(() => browser?.close(), 60_000);

/** Opens an authorization URL of the partner's app as this person, and completes the pages. */
async function visit(
  name: string,
  o: { readonly query?: Record<string, string>; readonly seen?: (page: Page) => Promise<void> },
) {
  const { auth_url, partner } = stack.file;
  const redirectUri = partner.redirect_uri ?? '';
  const url = new URL(`${auth_url}/authorize`);
  url.search = new URLSearchParams({
    ...{ response_type: 'code', client_id: partner.client_id ?? '', redirect_uri: redirectUri },
    ...{ scope: 'developer_tools labels:write', state: 'st', ...o.query },
  }).toString();
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const refused: string[] = [];
    page.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) refused.push(message.text());
    });
    await page.route(`${redirectUri}**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<h1>Back</h1>' }),
    );
    const { email, password } = personOf(stack, name);
    const answers = { email, password, backAt: redirectUri };
    const headings = await walkThrough(page, url, { ...answers, ...(o.seen && { seen: o.seen }) });
    return {
      headings,
      url: new URL(page.url()),
      text: await page.locator('body').innerText(),
      refused,
    };
  } finally {
    await context.close();
  }
}

/** Serious problems of the shown page for people who use assistive technology. */
async function faultsOf(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.map(({ id }) => id);
}

describe("the pages of a partner's app, in a browser", () => {
  test('sign-in and consent lead back to the app with a code, and are accessible', async () => {
    const faults: string[] = [];
    const seen = async (page: Page) => void faults.push(...(await faultsOf(page)));
    const { headings, url, refused } = await visit('developer', { seen });
    expect(headings).toEqual(['Sign in', 'Connect Demo partner app to your shop?', 'Back']);
    expect(url.searchParams.get('code')).toEqual(expect.any(String));
    expect({ faults, refused }).toEqual({ faults: [], refused: [] });
  });

  test('a person who may not connect apps reads whom to ask, and goes back', async () => {
    const { headings, url, refused } = await visit('analyst', {});
    expect(headings).toEqual(['Sign in', 'You may not connect this app']);
    expect(url.pathname).toMatch(/^\/interaction\/.*sign-in$/);
    expect(refused).toEqual([]);
  });

  test.each([
    ['client_id', 'stranger', 'This app is not known here'],
    ['redirect_uri', 'https://evil.example.com/', 'The address of the app is not registered'],
  ])('an error with %s is explained', async (name, value, heading) => {
    const { headings, text } = await visit('owner', { query: { [name]: value } });
    expect(headings).toEqual([heading]);
    expect(text).toContain(value);
  });
});
