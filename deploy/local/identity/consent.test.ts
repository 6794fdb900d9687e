import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Page } from './testing/browser.ts';
import {
  claimsIn,
  type IdentityBench,
  type Install,
  notAllowedIn,
  redirectedWith,
  shop,
  startIdentityBench,
} from './testing/identity-bench.ts';

let bench: IdentityBench;
beforeAll(async () => {
  bench = await startIdentityBench();
});
beforeEach(() => bench.reset());
afterAll(() => bench.stop());

/** The claims of the token that the app gets for its code. */
const claimsOf = async (page: Page) => claimsIn((await bench.redeem(page)).access_token);

/** The page that a person sees before the decision. */
const consentPageOf = (name: string, o: Install = {}): Promise<Page> =>
  bench.install(name, { ...o, stopAt: 'name="consent"' });

describe('the consent page', () => {
  test('says in words what the app may do, for which shop and for how long', async () => {
    const { text } = await consentPageOf('owner', { scope: 'developer_tools labels:write email' });
    for (const part of [
      'Parcels &#38; Co',
      '127.0.0.1:7777',
      'Shop 1 (no. 1)',
      'owner@example.com',
      'create, change and delete the webhooks',
      'record shipping labels',
      'see your e-mail address',
      '90 days at most',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).not.toContain('developer_tools');
    const { text: less } = await consentPageOf('owner', { scope: 'labels:write' });
    expect(less).not.toContain('webhooks of the shop');
  });

  test('forbids scripts, resources, frames, and forms to other origins', async () => {
    const { headers, text } = await consentPageOf('owner');
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy.replace(/sha256-[A-Za-z0-9+/=]+/, 'sha256')).toBe(
      "default-src 'none'; style-src 'sha256'; img-src data:; base-uri 'none'; form-action 'self' http://127.0.0.1:7777; frame-ancestors 'none'",
    );
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(text).not.toMatch(
      /<script|<link(?! rel="icon" type="image\/svg\+xml" href="data:)|style="/,
    );
  });

  test('is shown for every authorization, also to a user who is signed in', async () => {
    const cookies = new Map<string, string>();
    await claimsOf(await bench.install('both', { shop: '1', cookies }));
    expect(await claimsOf(await bench.install('both', { shop: '2', cookies }))).toMatchObject({
      shop_id: 2,
    });
    const none = await bench.install('both', { more: { prompt: 'none' }, cookies });
    expect(redirectedWith(none)).toMatchObject({ error: 'consent_required' });
  });

  test('denying returns access_denied to the app', async () => {
    const denied = await bench.install('owner', { consent: 'deny' });
    expect(redirectedWith(denied)).toMatchObject({ error: 'access_denied', state: 'st' });
    expect(denied.url.searchParams.has('code')).toBe(false);
  });

  test('names who may connect the app when the user may not, and leads back', async () => {
    const page = await bench.install('analyst');
    expect(redirectedWith(page)).toMatchObject({ error: 'access_denied' });
    const seen = page.pages.at(-1)?.text ?? '';
    for (const part of ['You may not connect this app', 'Shop 1', 'Ada (Owner)', 'Parcels']) {
      expect(seen).toContain(part);
    }
  });

  test('tells a user without a shop what to do', async () => {
    const page = await bench.install('nobody');
    expect(redirectedWith(page)).toMatchObject({ error: 'access_denied', state: 'st' });
    expect(page.pages.at(-1)?.text).toContain('No shop is linked to nobody@example.com');
  });

  test('accepts only a known choice, and not of a user who lost the permission', async () => {
    const { text, url, cookies } = await consentPageOf('owner');
    const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';
    const action = /action="([^"]+allow)"/.exec(text)?.[1] ?? '';
    const allow = (fields: Record<string, string>) =>
      fetch(new URL(action, url), {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie: [...cookies.values()].join('; ') },
        body: new URLSearchParams(fields),
      });
    expect((await allow({ consent: 'allow', csrf: 'x' })).status).toBe(400);
    for (const choice of [{ consent: 'maybe' }, { consent: 'ALLOW' }, {}]) {
      const unknown = await allow({ ...choice, csrf } as Record<string, string>);
      expect([unknown.status, await unknown.text()]).toEqual([
        400,
        expect.stringContaining('nothing was allowed'),
      ]);
    }
    bench.shops.set('owner', [notAllowedIn(1n)]);
    const refused = await allow({ consent: 'allow', csrf });
    expect([refused.status, await refused.text()]).toEqual([
      403,
      expect.stringContaining('You may not connect this app'),
    ]);
    bench.shops.set('owner', [shop(1n)]);
    expect((await allow({ consent: 'allow', csrf })).status).toBe(303);
  });
});
