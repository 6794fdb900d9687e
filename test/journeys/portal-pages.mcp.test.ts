import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../kit/mcp/browser.ts';
import { sharedStack } from '../kit/mcp/shared-stack.ts';
import {
  createVisitors,
  SCHEMES,
  untilLoaded,
  type Visitor,
  WIDTHS,
} from '../kit/portal/visitor.ts';
import type { OpenStack } from '../kit/stack.ts';

/** What each role finds in the navigation. By hand, so that nobody gives a role a page by accident. */
const EVERYBODY = ['Team and roles', 'Connected assistants'];
const INTEGRATION = ['Webhooks', 'Payload version', 'API keys', 'Partner apps', 'Usage by version'];
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
let pageOf: ReturnType<typeof createVisitors>;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
  pageOf = createVisitors(stack, browser);
}, 180_000);
afterAll(() => browser?.close(), 60_000);

/** The widths at which the page or its dialog scrolls sideways. The page has the last width afterwards. */
async function wrongSizes({ page }: Visitor): Promise<string[]> {
  const wrong: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    const overflow = await page.evaluate<number>(
      `Math.max(...[document.documentElement, ...document.querySelectorAll('dialog')].map(
        ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`,
    );
    if (overflow !== 0) wrong.push(`${overflow} px wider than ${width} px`);
  }
  return wrong;
}

describe.each(Object.keys(AREAS))('the portal of the role %s', (role) => {
  test('shows the pages of the role, each without an error at every width', async () => {
    const visitor = await pageOf(role);
    const { page } = visitor;
    const links = page.getByRole('navigation', { name: 'Portal' }).getByRole('link');
    expect(await links.allInnerTexts()).toEqual(AREAS[role]);
    for (const area of AREAS[role] ?? []) {
      await links.filter({ hasText: area }).click();
      await untilLoaded(page);
      expect(page.url()).toBe(`${stack.file.base_url}/portal${PATHS[area]}`);
      const alerts = await page.getByRole('alert').allInnerTexts();
      expect([area, alerts, await wrongSizes(visitor)]).toEqual([area, [], []]);
    }
    expect(visitor.problems()).toEqual([]);
  });
});

test('a page that the role does not include says so, and asks for nothing', async () => {
  const { page, open, problems } = await pageOf('warehouse');
  const calls: string[] = [];
  page.on('request', (request) => calls.push(request.url()));
  await open('/audit-log');
  await page.getByRole('heading', { name: 'Your role does not include this page' }).waitFor();
  expect(calls.filter((url) => url.includes('AuditService'))).toEqual([]);
  expect(problems()).toEqual([]);
});

describe('every page', () => {
  const others = ['/deliveries', '/replays', '/returns/1', '/returns/21', '/sessions', '/nowhere'];
  const paths = [...Object.values(PATHS), ...others];

  test.each(paths)('%s is accessible in both schemes', async (path) => {
    const visitor = await pageOf('owner');
    await visitor.open(path);
    const errors: string[] = [];
    for (const scheme of SCHEMES) errors.push(...(await visitor.accessibilityErrors(scheme)));
    const shown = { errors, sizes: await wrongSizes(visitor), problems: visitor.problems() };
    expect(shown).toEqual({ errors: [], sizes: [], problems: [] });
  });
});

describe('every dialog that a page opens', () => {
  test.each([
    ['/webhooks', ['Add a webhook']],
    ['/api-keys', ['Create an API key']],
    ['/destinations', ['Add a destination']],
    ['/team', ['Add a person']],
    ['/deliveries', ['Send these again']],
    ['/sessions', ['Sign out everywhere']],
  ] as const)('at %s is accessible, and fits a phone', async (path, [button]) => {
    const visitor = await pageOf('owner');
    const { page } = visitor;
    await visitor.open(path);
    await page.getByRole('button', { name: button, exact: true }).click();
    await page.getByRole('dialog').waitFor();
    await untilLoaded(page);
    const errors = await visitor.accessibilityErrors('light');
    const shown = { errors, sizes: await wrongSizes(visitor), problems: visitor.problems() };
    expect(shown).toEqual({ errors: [], sizes: [], problems: [] });
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });
});
