import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { exportJWK, generateKeyPair } from 'jose';
import * as oauth from 'openid-client';
import { freePorts } from '../free-ports.ts';
import type { Listening } from '../loopback.ts';
import { startIdentity } from './start.ts';
import { browse, type Page } from './testing/browser.ts';

const REDIRECT = 'http://127.0.0.1:7777/callback';
const RESOURCE = 'http://127.0.0.1:8080';
const SIGN_IN_REDIRECT = `${RESOURCE}/oauth/callback`;
const SIGN_IN = {
  clientId: 'sign-in',
  clientSecret: 'secret of the sign-in',
  redirectUris: [SIGN_IN_REDIRECT],
};
const person = (name: string, shopIds: readonly number[]) => ({
  id: `user-${name}`,
  name,
  email: `${name}@example.com`,
  password: `password of ${name}`,
  shopIds,
});

let identity: Listening;
let app: oauth.Configuration;
let signIn: oauth.Configuration;

beforeAll(async () => {
  const [port = 0] = await freePorts(1);
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const partner = { clientId: 'app', clientSecret: 'secret of the app', redirectUri: REDIRECT };
  identity = await startIdentity({
    port,
    issuer: `http://127.0.0.1:${port}`,
    resource: RESOURCE,
    partner,
    signIn: SIGN_IN,
    accounts: [
      person('owner', [1]),
      person('both', [1, 2]),
      person('nobody', []),
      { ...person('unproved', [1]), emailVerified: false },
    ],
    signingKey: { ...(await exportJWK(privateKey)), kty: 'RSA', kid: 'k1', alg: 'RS256' },
    cookieSecret: 'secret of the cookies',
  });
  app = await clientOf(partner, oauth.ClientSecretPost(partner.clientSecret));
  signIn = await clientOf(SIGN_IN, oauth.ClientSecretBasic(SIGN_IN.clientSecret));
});
afterAll(() => identity.stop());

function clientOf(client: { clientId: string; clientSecret: string }, auth: oauth.ClientAuth) {
  const issuer = new URL(`http://127.0.0.1:${identity.port}`);
  const o = { execute: [oauth.allowInsecureRequests] };
  return oauth.discovery(issuer, client.clientId, client.clientSecret, auth, o);
}

/** Completes the pages like a browser. Stops at the redirect to the app or at a page without a form. */
async function install(name: string, o: { password?: string; shop?: string } = {}): Promise<Page> {
  const fields = {
    email: `${name}@example.com`,
    password: o.password ?? `password of ${name}`,
    ...(o.shop && { shop_id: o.shop }),
  };
  const start = oauth.buildAuthorizationUrl(app, {
    redirect_uri: REDIRECT,
    scope: 'developer_tools',
    state: 'st',
  });
  return browse(start, { fields, until: REDIRECT });
}

/** The claims of the token that the app gets for its code. */
async function claimsOf(page: Page): Promise<unknown> {
  const tokens = await oauth.authorizationCodeGrant(app, page.url, { expectedState: 'st' });
  const [, payload = ''] = tokens.access_token.split('.');
  return JSON.parse(Buffer.from(payload, 'base64url').toString());
}

describe('authorization code flow of a partner app', () => {
  test('the token of a user with one shop is for this shop', async () => {
    expect(await claimsOf(await install('owner'))).toMatchObject({
      iss: `http://127.0.0.1:${identity.port}`,
      aud: RESOURCE,
      client_id: 'app',
      scope: 'developer_tools',
      shop_id: 1,
    });
  });

  test('a user of several shops chooses one', async () => {
    expect(await claimsOf(await install('both', { shop: '2' }))).toMatchObject({ shop_id: 2 });
  });

  test('the shop of another user cannot be chosen', async () => {
    expect((await install('both', { shop: '3' })).status).toBe(400);
  });

  test('a user without a shop is redirected to the app with an error', async () => {
    const { url } = await install('nobody');
    expect(url.href.startsWith(REDIRECT)).toBe(true);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      error: 'access_denied',
      state: 'st',
    });
  });

  test('a wrong password shows the form again', async () => {
    const page = await install('owner', { password: 'wrong' });
    expect(page).toMatchObject({ status: 401, text: expect.stringContaining('do not belong') });
  });
});

describe('the sign-in of this service', () => {
  interface Person {
    readonly hint?: string;
    readonly fill?: string;
    readonly cookies?: Map<string, string>;
  }

  /** Signs in with a hint. Fills in only the password, unless `fill` has a user. */
  async function arrive(o: Person): Promise<{ page: Page; verifier: string }> {
    const verifier = oauth.randomPKCECodeVerifier();
    const start = oauth.buildAuthorizationUrl(signIn, {
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
    return oauth.authorizationCodeGrant(signIn, page.url, checks);
  }

  test('returns the identity of the user, without the choice of a shop', async () => {
    const tokens = await tokensOf({ hint: 'both@example.com' });
    const expected = { sub: 'user-both', email: 'both@example.com', email_verified: true };
    expect(tokens.claims()).toMatchObject({ ...expected, aud: 'sign-in' });
    expect(await oauth.fetchUserInfo(signIn, tokens.access_token, 'user-both')).toMatchObject(
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

  test('fills in the address of the hint, escaped', async () => {
    const start = oauth.buildAuthorizationUrl(signIn, {
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
