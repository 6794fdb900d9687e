import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { exportJWK, generateKeyPair } from 'jose';
import * as oauth from 'openid-client';
import { freePorts } from '../free-ports.ts';
import { type RunningIdentity, startIdentity } from './start.ts';
import { browse, type Page } from './testing/browser.ts';

const REDIRECT = 'http://127.0.0.1:7777/callback';
const RESOURCE = 'http://127.0.0.1:8080';
const person = (name: string, shopIds: readonly number[]) => ({
  id: `user-${name}`,
  name,
  email: `${name}@example.com`,
  password: `password of ${name}`,
  shopIds,
});

let identity: RunningIdentity;
let app: oauth.Configuration;

beforeAll(async () => {
  const [port = 0] = await freePorts(1);
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const partner = { clientId: 'app', clientSecret: 'secret of the app', redirectUri: REDIRECT };
  identity = await startIdentity({
    port,
    issuer: `http://127.0.0.1:${port}`,
    resource: RESOURCE,
    partner,
    accounts: [person('owner', [1]), person('both', [1, 2]), person('nobody', [])],
    signingKey: { ...(await exportJWK(privateKey)), kty: 'RSA', kid: 'k1', alg: 'RS256' },
    cookieSecret: 'secret of the cookies',
  });
  app = await oauth.discovery(
    new URL(`http://127.0.0.1:${identity.port}`),
    partner.clientId,
    partner.clientSecret,
    undefined,
    { execute: [oauth.allowInsecureRequests] },
  );
});
afterAll(() => identity.stop());

/** Goes through the pages as a person with a browser would, until back at the app or at a page without a form. */
async function signIn(name: string, o: { password?: string; shop?: string } = {}): Promise<Page> {
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

/** What the token says that the app gets for a code. */
async function claimsOf(page: Page): Promise<unknown> {
  const tokens = await oauth.authorizationCodeGrant(app, page.url, { expectedState: 'st' });
  const [, payload = ''] = tokens.access_token.split('.');
  return JSON.parse(Buffer.from(payload, 'base64url').toString());
}

describe('authorization code flow of a partner app', () => {
  test('a token is for the one shop that a person has', async () => {
    expect(await claimsOf(await signIn('owner'))).toMatchObject({
      iss: `http://127.0.0.1:${identity.port}`,
      aud: RESOURCE,
      client_id: 'app',
      scope: 'developer_tools',
      shop_id: 1,
    });
  });

  test('who has several shops chooses one', async () => {
    expect(await claimsOf(await signIn('both', { shop: '2' }))).toMatchObject({ shop_id: 2 });
  });

  test('a shop of somebody else is not to be had', async () => {
    expect((await signIn('both', { shop: '3' })).status).toBe(400);
  });

  test('who has no shop goes back to the app with a refusal', async () => {
    const { url } = await signIn('nobody');
    expect(url.href.startsWith(REDIRECT)).toBe(true);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      error: 'access_denied',
      state: 'st',
    });
  });

  test('a wrong password shows the form again', async () => {
    const page = await signIn('owner', { password: 'wrong' });
    expect(page).toMatchObject({ status: 401, text: expect.stringContaining('do not belong') });
  });
});
