import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as oauth from 'openid-client';
import { browse, type Page } from './testing/browser.ts';
import {
  type IdentityBench,
  SIGN_IN_REDIRECT,
  startIdentityBench,
} from './testing/identity-bench.ts';

let bench: IdentityBench;
beforeAll(async () => {
  bench = await startIdentityBench();
});
afterAll(() => bench.stop());

describe('the sign-in of this service', () => {
  interface Person {
    readonly hint?: string;
    readonly fill?: string;
    readonly cookies?: Map<string, string>;
  }

  /** Signs in with a hint. Fills in only the password, unless `fill` has a user. */
  async function arrive(o: Person): Promise<{ page: Page; verifier: string }> {
    const verifier = oauth.randomPKCECodeVerifier();
    const start = oauth.buildAuthorizationUrl(bench.signIn, {
      redirect_uri: SIGN_IN_REDIRECT,
      scope: 'openid email',
      state: 'st',
      nonce: 'no',
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(o.hint && { login_hint: o.hint }),
    });
    const name = o.fill ?? o.hint?.split('@')[0] ?? '';
    const fields = { email: `${name}@example.com`, password: `password of ${name}` };
    const page = await browse(start, {
      fields,
      until: SIGN_IN_REDIRECT,
      ...(o.cookies && { cookies: o.cookies }),
    });
    return { page, verifier };
  }

  async function tokensOf(o: Person) {
    const { page, verifier } = await arrive(o);
    const checks = { expectedState: 'st', expectedNonce: 'no', pkceCodeVerifier: verifier };
    return oauth.authorizationCodeGrant(bench.signIn, page.url, checks);
  }

  test('returns the identity of the user, without the choice of a shop', async () => {
    const tokens = await tokensOf({ hint: 'both@example.com' });
    const expected = { sub: 'user-both', email: 'both@example.com', email_verified: true };
    expect(tokens.claims()).toMatchObject({ ...expected, aud: 'sign-in' });
    expect(await oauth.fetchUserInfo(bench.signIn, tokens.access_token, 'user-both')).toMatchObject(
      expected,
    );
  });

  test('works for users without a shop, and shows when an address is not confirmed', async () => {
    expect((await tokensOf({ fill: 'nobody' })).claims()).toMatchObject({ sub: 'user-nobody' });
    expect((await tokensOf({ fill: 'unproved' })).claims()).toMatchObject({
      email_verified: false,
    });
  });

  test('its access token has no shop and no audience', async () => {
    const { access_token } = await tokensOf({ fill: 'owner' });
    expect(access_token).not.toContain('.');
  });

  test('a sign-in that has ended has a page', async () => {
    const response = await fetch(`${bench.url}/interaction/unknown`);
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('This sign-in has ended'),
    ]);
  });

  test('fills in the address of the hint, escaped', async () => {
    const start = oauth.buildAuthorizationUrl(bench.signIn, {
      redirect_uri: SIGN_IN_REDIRECT,
      scope: 'openid email',
      code_challenge: await oauth.calculatePKCECodeChallenge('v'),
      code_challenge_method: 'S256',
      login_hint: 'a"><b>@example.com',
    });
    const page = await fetch(start).then((shown) => shown.text());
    expect(page).not.toContain('<b>');
  });

  test('shows the form again when the signed-in user is not the user of the hint', async () => {
    const cookies = new Map<string, string>();
    const first = await tokensOf({ hint: 'owner@example.com', cookies });
    expect(first.claims()).toMatchObject({ sub: 'user-owner' });
    const second = await tokensOf({ hint: 'both@example.com', cookies });
    expect(second.claims()).toMatchObject({ sub: 'user-both' });
    const again = await tokensOf({ hint: 'both@example.com', fill: 'nobody', cookies });
    expect(again.claims()).toMatchObject({ sub: 'user-both' });
  });

  test('lets another user sign in than the user of the hint', async () => {
    const tokens = await tokensOf({ hint: 'owner@example.com', fill: 'both' });
    expect(tokens.claims()).toMatchObject({ sub: 'user-both' });
  });

  test('shows an error when the password is wrong', async () => {
    const { page } = await arrive({ hint: 'stranger@example.com' });
    expect(page).toMatchObject({ status: 401, text: expect.stringContaining('do not belong') });
  });
});
