import { describe, expect, test } from '@jest/globals';
import { alertsOn, portalForTests, untilLoaded } from '../../kit/portal/visitor.ts';

/** What each role finds in the navigation. By hand, so that nobody gives a role a page by accident. */
const EVERYBODY = ['Team and roles', 'Connected assistants'];
const INTEGRATION = [
  'Webhooks',
  'Payload version',
  'API keys',
  'Partner apps',
  'Who calls which version',
];
const SETUP = ['Settings', 'Commerce platform'];
const GOODS = ['Returns', 'Withdrawals', 'Destinations', 'Policy'];
const ALL = [...INTEGRATION, ...GOODS, ...SETUP, ...EVERYBODY, 'Audit log'];
const PATHS: Readonly<Record<string, string>> = {
  Webhooks: '/webhooks',
  'Payload version': '/payload-version',
  'API keys': '/api-keys',
  'Partner apps': '/partner-apps',
  'Who calls which version': '/usage',
  Returns: '/returns',
  Withdrawals: '/withdrawals',
  Destinations: '/destinations',
  Policy: '/policy',
  Settings: '/settings',
  'Commerce platform': '/commerce',
  'Team and roles': '/team',
  'Connected assistants': '/assistants',
  'Audit log': '/audit-log',
};
const AREAS: Readonly<Record<string, readonly string[]>> = {
  owner: ALL,
  admin: ALL,
  returns_agent: [...GOODS, ...EVERYBODY],
  warehouse: [...GOODS, ...EVERYBODY],
  analyst: ['Returns', 'Withdrawals', 'Policy', ...EVERYBODY],
  developer: [...INTEGRATION, 'Returns', 'Withdrawals', 'Policy', ...EVERYBODY],
};

const portal = portalForTests();

describe.each(Object.keys(AREAS))('the portal of the role %s', (role) => {
  test('shows the pages of the role, each without an error at every width', async () => {
    const visitor = await portal.userNamed(role);
    const { page } = visitor;
    const links = page.getByRole('navigation', { name: 'Portal' }).getByRole('link');
    expect(await links.allInnerTexts()).toEqual(AREAS[role]);
    for (const area of AREAS[role] ?? []) {
      await links.filter({ hasText: area }).click();
      await untilLoaded(page);
      expect(page.url()).toBe(`${portal.stack.file.base_url}/portal${PATHS[area]}`);
      expect([area, await alertsOn(page), await visitor.wrongSizes()]).toEqual([area, [], []]);
    }
    expect(visitor.problems()).toEqual([]);
  });
});

test('a page that the role does not include says so, and asks for nothing', async () => {
  const { page, open, problems } = await portal.userNamed('warehouse');
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
    const visitor = await portal.userNamed('owner');
    await visitor.open(path);
    expect(await visitor.findings()).toEqual([]);
  });
});
