import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Page } from './testing/browser.ts';
import {
  claimsIn,
  type IdentityBench,
  REDIRECT,
  RESOURCE,
  redirectedWith,
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

describe('authorization code flow of a partner app', () => {
  test('the token of a user with one shop is for this shop, and names the user', async () => {
    expect(await claimsOf(await bench.install('owner'))).toMatchObject({
      iss: `${bench.url}`,
      aud: RESOURCE,
      client_id: 'app',
      scope: 'developer_tools',
      shop_id: 1,
      sub: 'user-owner',
    });
  });

  test('a user of several shops chooses one of those for which they may connect apps', async () => {
    expect(await claimsOf(await bench.install('both', { shop: '2' }))).toMatchObject({
      shop_id: 2,
    });
  });

  test.each([
    ['of another user', '9', 400, 'Choose one of your shops.'],
    ['without the permission', '3', 403, 'You may not connect this app'],
  ])('a shop %s cannot be chosen', async (_, id, status, stopAt) => {
    const page = await bench.install('both', { shop: id, stopAt });
    expect(page).toMatchObject({ status, text: expect.stringContaining(stopAt) });
  });

  test('the token has only scopes that the app requested and that exist', async () => {
    const page = await bench.install('owner', { scope: 'labels:write everything' });
    expect(await claimsOf(page)).toMatchObject({ scope: 'labels:write' });
    const both = await bench.install('owner', { scope: 'developer_tools labels:write' });
    expect(await claimsOf(both)).toMatchObject({ scope: 'developer_tools labels:write' });
    expect(redirectedWith(await bench.install('owner', { scope: 'everything' }))).toMatchObject({
      error: 'invalid_scope',
      state: 'st',
    });
  });

  test('a wrong password shows the form again', async () => {
    const page = await bench.install('owner', { password: 'wrong' });
    expect(page).toMatchObject({ status: 401, text: expect.stringContaining('do not belong') });
  });
});

describe('errors that cannot be returned to the app have a page that explains', () => {
  const authorize = async (parameters: Record<string, string>) => {
    const url = new URL(`${bench.url}/authorize`);
    const all = { client_id: 'app', redirect_uri: REDIRECT, response_type: 'code', ...parameters };
    url.search = new URLSearchParams({ scope: 'developer_tools', ...all }).toString();
    const response = await fetch(url, { redirect: 'manual', headers: { accept: 'text/html' } });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  test.each([
    ['an unknown app', { client_id: 'stranger<b>' }, 'This app is not known here'],
    [
      'an address that is not registered',
      { redirect_uri: 'https://evil.example.com/' },
      'The address of the app is not registered',
    ],
  ])('%s', async (_, parameters, title) => {
    const { status, headers, text } = await authorize(parameters);
    expect(status).toBe(400);
    expect(text).toContain(`<h1>${title}</h1>`);
    expect(text).toContain(Object.values(parameters)[0]?.replace('<b>', '&#60;b&#62;'));
    expect(headers.get('content-security-policy')).toContain(
      "default-src 'none'; style-src 'sha256",
    );
  });

  test('a sign-in that has ended', async () => {
    const response = await fetch(`${bench.url}/interaction/unknown`);
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('This sign-in has ended'),
    ]);
  });
});
