import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startTestGateway, type TestGateway } from '../../../test/kit/gateway/test-gateway.ts';
import { portalPerson } from '../../../test/kit/portal/portal.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

describe('a browser without a session', () => {
  const pageAt = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${under.gateway.baseUrl}${path}`, { redirect: 'manual', headers });

  test.each([
    ['no cookie', {}],
    ['a cookie that nobody has', { cookie: `rms_portal=${'a'.repeat(43)}` }],
    ['the mark of a sign-out', { cookie: 'rms_portal=signed-out' }],
  ])('goes from a page to the sign-in, and keeps the address: %s', async (_what, headers) => {
    const { status, headers: sent } = await pageAt('/portal/returns?q=%231001&state=open', headers);
    expect([status, sent.get('cache-control')]).toEqual([303, 'no-store']);
    const to = new URL(sent.get('location') ?? '', under.gateway.baseUrl);
    expect([to.pathname, to.searchParams.get('return_to')]).toEqual([
      '/portal/sign-in',
      '/portal/returns?q=%231001&state=open',
    ]);
  });

  test('gets the page with a session, after the sign-out, and in a frame, which the policy refuses', async () => {
    const { secret } = await portalPerson(under, { shopId: 1n, role: 'owner' });
    const pages = [
      await pageAt('/portal/returns', { cookie: `rms_portal=${secret}` }),
      await pageAt('/portal/signed-out'),
      await pageAt('/portal/returns', { 'sec-fetch-dest': 'iframe' }),
    ];
    // The page may not be built here; then it says so.
    for (const { status } of pages) expect([200, 503]).toContain(status);
  });

  test('gets a redirect from a call if it asks for one, so that nothing is reported as an error', async () => {
    const site = { 'Sec-Fetch-Site': 'same-origin' };
    const headers = {
      'Content-Type': 'application/json',
      'Connect-Protocol-Version': '1',
      ...site,
    };
    const call = (more: Record<string, string>) =>
      fetch(`${under.gateway.baseUrl}/portal/api/rms.portal.v1.SessionService/GetSession`, {
        method: 'POST',
        body: '{}',
        redirect: 'manual',
        headers: { ...headers, ...more },
      });
    expect((await call({})).status).toBe(401);
    const redirected = await call({ 'Portal-No-Session': 'redirect' });
    expect([redirected.status, redirected.headers.get('location')]).toEqual([
      303,
      '/portal/sign-in',
    ]);
  });
});
