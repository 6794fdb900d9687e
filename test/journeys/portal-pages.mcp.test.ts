import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { PORTAL_SERVICES } from '../../gateway/portal/all-services.ts';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import { untilLoaded, type Visitor, visit } from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

/** What each role finds in the navigation. By hand, so that nobody gives a role a page by accident. */
const EVERYBODY = ['Team and roles', 'Connected assistants'];
/** The pages of the first two need services that the gateway may not serve yet. */
const SERVED = new Set(PORTAL_SERVICES.map(({ name }) => name));
const INTEGRATION = [
  ...(SERVED.has('WebhooksService') ? ['Webhooks'] : []),
  ...(SERVED.has('PayloadVersionService') ? ['Payload version'] : []),
  'API keys',
  'Partner apps',
  'Usage by version',
];
const ALL = [...INTEGRATION, 'Returns', 'Destinations', ...EVERYBODY, 'Audit log'];
const PATHS: Readonly<Record<string, string>> = {
  Webhooks: '/webhooks',
  'Payload version': '/payload-version',
  'API keys': '/api-keys',
  'Partner apps': '/partner-apps',
  'Usage by version': '/usage',
  Returns: '/returns',
  Destinations: '/destinations',
  'Team and roles': '/team',
  'Connected assistants': '/assistants',
  'Audit log': '/audit-log',
};
const AREAS: Readonly<Record<string, readonly string[]>> = {
  owner: ALL,
  admin: ALL,
  returns_agent: ['Returns', 'Destinations', ...EVERYBODY],
  warehouse: ['Returns', 'Destinations', ...EVERYBODY],
  analyst: ['Returns', ...EVERYBODY],
  developer: [...INTEGRATION, 'Returns', ...EVERYBODY],
};

let stack: OpenStack;
let browser: Browser;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
}, 180_000);
afterAll(() => browser?.close(), 60_000);

async function as(name: string, work: (visitor: Visitor) => Promise<void>) {
  const visitor = await visit(stack, browser, name);
  try {
    await work(visitor);
  } finally {
    await visitor.close();
  }
}

describe.each(Object.keys(AREAS))('the portal of the role %s', (role) => {
  test('shows the pages of the role, each without an error', () =>
    as(role, async (visitor) => {
      const links = visitor.page.getByRole('navigation', { name: 'Portal' }).getByRole('link');
      expect(await links.allInnerTexts()).toEqual(AREAS[role]);
      for (const area of AREAS[role] ?? []) {
        await links.filter({ hasText: area }).click();
        await untilLoaded(visitor.page);
        expect(visitor.page.url()).toBe(`${stack.file.base_url}/portal${PATHS[area]}`);
        expect([area, await visitor.page.getByRole('alert').allInnerTexts()]).toEqual([area, []]);
      }
      expect(visitor.problems()).toEqual([]);
    }));
});

test('a page that the role does not include says so, and asks for nothing', () =>
  as('warehouse', async ({ page, open, problems }) => {
    const calls: string[] = [];
    page.on('request', (request) => calls.push(request.url()));
    await open('/audit-log');
    await page.getByRole('heading', { name: 'Your role does not include this page' }).waitFor();
    expect(calls.filter((url) => url.includes('AuditService'))).toEqual([]);
    expect(problems()).toEqual([]);
  }));

describe.each([
  ['a wide screen', 1280],
  ['a phone', 390],
])('on %s', (_screen, width) => {
  let visitor: Visitor;
  beforeAll(async () => {
    visitor = await visit(stack, browser, 'owner', { width });
  }, 120_000);
  afterAll(() => visitor?.close(), 60_000);

  const paths = [
    ...Object.entries(PATHS)
      .filter(([area]) => ALL.includes(area))
      .map(([, path]) => path),
    '/returns/1',
    '/returns/21',
    '/sessions',
    '/nowhere',
  ];
  test.each(paths)(
    '%s is accessible in both schemes, and does not scroll sideways',
    async (path) => {
      await visitor.open(path);
      const errors = [
        ...(await visitor.accessibilityErrors('light')),
        ...(await visitor.accessibilityErrors('dark')),
      ];
      const overflow = await visitor.page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      expect({ errors, overflow, problems: visitor.problems() }).toEqual({
        errors: [],
        overflow: 0,
        problems: [],
      });
    },
  );
});
