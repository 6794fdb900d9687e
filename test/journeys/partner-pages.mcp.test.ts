import { AxeBuilder } from '@axe-core/playwright';
import { describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { walkThrough } from '../kit/mcp/browser.ts';
import { personOf } from '../kit/mcp/shared-stack.ts';
import { portalForTests } from '../kit/portal/visitor.ts';

const portal = portalForTests();

interface Visit {
  /** Headings of the shown pages. */
  readonly headings: readonly string[];
  /** The redirect to the app; undefined when there was none. */
  readonly back: URL | undefined;
  /** Text of the last page. */
  readonly text: string;
  /** What the content security policy of a page stopped. */
  readonly refused: readonly string[];
}

/** Opens an authorization URL of the partner's app as this person, and completes the pages. */
async function visit(
  name: string,
  o: { readonly query?: Record<string, string>; readonly seen?: (page: Page) => Promise<void> },
): Promise<Visit> {
  const { auth_url, partner } = portal.stack.file;
  const redirectUri = partner.redirect_uri ?? '';
  const url = new URL(`${auth_url}/authorize`);
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: partner.client_id ?? '',
    redirect_uri: redirectUri,
    scope: 'developer_tools labels:write',
    state: 'st',
    code_challenge: 'x'.repeat(43),
    code_challenge_method: 'S256',
    ...o.query,
  }).toString();
  const { email, password } = personOf(portal.stack, name);
  const context = await portal.browser.newContext();
  const [headings, refused]: [string[], string[]] = [[], []];
  let back: URL | undefined;
  let text = '';
  try {
    const page = await context.newPage();
    page.on('request', (request) => {
      if (request.url().startsWith(redirectUri)) back = new URL(request.url());
    });
    page.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) refused.push(message.text());
    });
    const seen = async (shown: Page) => {
      headings.push(await shown.getByRole('heading', { level: 1 }).innerText());
      text = await shown.locator('body').innerText();
      await o.seen?.(shown);
    };
    await walkThrough(page, url, { email, password, backAt: redirectUri, seen }).catch((error) => {
      // No app listens at the redirect URI, so the last navigation fails.
      if (back === undefined) throw error;
    });
    return { headings, back, text, refused };
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
    const { headings, back, refused } = await visit('developer', { seen });
    expect(headings).toEqual(['Sign in', 'Connect Demo partner app to your shop?']);
    expect(back?.searchParams.get('code')).toEqual(expect.any(String));
    expect({ faults, refused }).toEqual({ faults: [], refused: [] });
  });

  test('a person who may not connect apps reads whom to ask', async () => {
    const { headings, text, refused } = await visit('analyst', {});
    expect(headings).toEqual(['Sign in', 'You may not connect this app']);
    expect(text).toMatch(/owner \(Owner\).*developer \(Developer\)/);
    expect(text).toContain('Back to the app');
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
