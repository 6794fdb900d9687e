import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { Browser, type Shown } from '../../test/kit/oauth/browser.ts';
import {
  type Begun,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { addMember, removeMember } from '../tenancy/members.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

const redeem = (shown: Shown, begun: Begun, redirectUri = REDIRECT) =>
  stack.token({
    grant_type: 'authorization_code',
    code: shown.url.searchParams.get('code') ?? '',
    redirect_uri: redirectUri,
    code_verifier: begun.verifier,
  });

describe('sign-in', () => {
  test('of a user with one shop ends with tokens for that shop', async () => {
    const person = await stack.newPerson();
    const begun = stack.begin();
    const shown = await stack.signIn(person, { begun });
    expect(shown.url.href.startsWith(`${REDIRECT}?`)).toBe(true);
    expect(Object.fromEntries(shown.url.searchParams)).toEqual({
      code: expect.any(String),
      state: begun.state,
      iss: stack.baseUrl,
    });
    const { status, body, headers } = await redeem(shown, begun);
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        token_type: 'Bearer',
        expires_in: 43_200,
        scope: 'mcp',
        // 43 base64url characters: more than 128 random bits.
        refresh_token: expect.stringMatching(/^[\w-]{43,}$/),
        access_token: expect.any(String),
      },
    });
    expect(shown.url.searchParams.get('code')).toMatch(/^[\w-]{43,}$/);
    expect(headers.get('cache-control')).toBe('no-store');
    const token = String(body.access_token);
    expect(decodeProtectedHeader(token)).toMatchObject({ alg: 'ES256', typ: 'at+jwt' });
    expect(decodeJwt(token)).toMatchObject({
      iss: stack.baseUrl,
      aud: `${stack.baseUrl}/mcp`,
      sub: String(person.userId),
      shop_id: String(person.shopIds[0]),
      client_id: 'rms-mcp',
      scope: 'mcp',
      jti: expect.any(String),
      grant_id: expect.any(String),
    });
  });

  test('of a client with a metadata document needs no registration', async () => {
    const person = await stack.newPerson();
    const client_id = 'https://claude.ai/oauth/mcp-oauth-client-metadata';
    const begun = stack.begin({ client_id });
    const { url } = await stack.signIn(person, { begun });
    const { status, body } = await stack.token({
      grant_type: 'authorization_code',
      client_id,
      code: url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: begun.verifier,
    });
    expect([status, decodeJwt(String(body.access_token)).client_id]).toEqual([200, client_id]);
  });

  test('of a user with two shops shows the shop form, and the token is for the chosen shop', async () => {
    const person = await stack.newPerson({ shops: 2 });
    for (const shop of person.shopIds) {
      const begun = stack.begin();
      const { body } = await redeem(await stack.signIn(person, { begun, shop }), begun);
      expect(decodeJwt(String(body.access_token)).shop_id).toBe(String(shop));
    }
  });

  test('with login_hint skips the e-mail form', async () => {
    const person = await stack.newPerson();
    const hinted = stack.begin({ login_hint: ` ${person.email.toUpperCase()} ` });
    const { status, headers } = await new Browser().send(hinted.url);
    expect(status).toBe(303);
    expect(headers.get('location')).toMatch(`${stack.issuer}/authorize?`);
    const { body } = await redeem(await stack.signIn(person, { begun: hinted }), hinted);
    expect(body.access_token).toEqual(expect.any(String));

    const two = await stack.newPerson({ shops: 2 });
    const shops = await new Browser().send(stack.begin({ login_hint: two.email }).url);
    expect([shops.status, shops.text.match(/name="shop_id"/g)?.length]).toEqual([200, 2]);
  });

  test.each(['', 'auth0|123', 'not an address', 'a'.repeat(400)])(
    'with a login_hint that is not an address (%j) shows the e-mail form',
    async (hint) => {
      const { status, text } = await new Browser().send(stack.begin({ login_hint: hint }).url);
      expect([status, text.includes('name="email"')]).toEqual([200, true]);
    },
  );

  test('shows the e-mail form again after an invalid address', async () => {
    const browser = new Browser();
    const form = await browser.open(stack.begin().url, REDIRECT);
    const again = await browser.submit(form, { email: '"><script>alert(1)</script>' }, REDIRECT);
    expect(again.status).toBe(400);
    expect(again.text).toContain('role="alert"');
    expect(again.text).not.toContain('<script>alert(1)');
    expect(again.text).toContain('&#60;script&#62;alert(1)');
  });

  test('of a user without a shop ends with a page that leads back to the app', async () => {
    const person = await stack.newPerson({ shops: 0 });
    const browser = new Browser();
    const begun = stack.begin();
    const shown = await stack.signIn(person, { begun, browser });
    expect([shown.status, shown.text.includes('No email was found')]).toEqual([403, true]);
    const back = await browser.submit(shown, {}, REDIRECT);
    expect(Object.fromEntries(back.url.searchParams)).toMatchObject({
      error: 'access_denied',
      state: begun.state,
      iss: stack.baseUrl,
    });
  });

  test('with another address than the entered one, or an unconfirmed one, returns no code', async () => {
    const [entered, other] = [await stack.newPerson(), await stack.newPerson()];
    const browser = new Browser();
    const sent = await browser.send(stack.begin({ login_hint: entered.email }).url);
    const upstream = new URL(sent.headers.get('location') ?? '');
    upstream.searchParams.set('login_hint', other.email);
    const form = await browser.open(upstream, REDIRECT);
    const account = { email: other.email, password: other.password };
    const shown = await browser.submit(form, account, REDIRECT);
    expect([shown.status, shown.text.includes('another address')]).toEqual([403, true]);

    const unconfirmed = await stack.newPerson({ verified: false });
    const page = await stack.signIn(unconfirmed);
    expect([page.status, page.url.pathname]).toEqual([403, '/oauth/callback']);
  });

  test('does not accept the shop of another user', async () => {
    const [person, other] = [await stack.newPerson({ shops: 2 }), await stack.newPerson()];
    const browser = new Browser();
    const form = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    for (const shop_id of [String(other.shopIds[0]), '999999', '', '1 or 1=1', '01']) {
      const again = await browser.submit(form, { shop_id }, REDIRECT);
      expect([again.status, again.url.origin]).toEqual([400, stack.baseUrl]);
    }
  });

  test('returns no code when the membership ends during the sign-in', async () => {
    const person = await stack.newPerson({ shops: 2 });
    const shopId = person.shopIds[0] ?? 0n;
    await addMember(stack.under.database.pool, {
      shopId,
      email: `owner-${person.email}`,
      role: 'owner',
      by: TEST_AUTHOR,
    });
    const browser = new Browser();
    const form = await browser.open(stack.begin({ login_hint: person.email }).url, REDIRECT);
    const password = await browser.submit(form, { shop_id: String(shopId) }, REDIRECT);
    await removeMember(stack.under.database.pool, { shopId, email: person.email, by: TEST_AUTHOR });
    const { email, password: word } = person;
    const shown = await browser.submit(password, { email, password: word }, REDIRECT);
    expect([shown.status, shown.text.includes('No email was found')]).toEqual([403, true]);
  });
});
