import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as oauth from 'openid-client';
import { browse } from '../../deploy/local/identity/testing/browser.ts';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import { admin } from '../kit/journeys/admin.ts';
import { type Journey, startJourney } from '../kit/journeys/journey.ts';
import { until } from '../kit/until.ts';

let journey: Journey;
let app: oauth.Configuration;

beforeAll(async () => {
  journey = await startJourney();
  const { auth_url, partner } = journey.stack.file;
  app = await oauth.discovery(
    new URL(auth_url),
    partner.client_id ?? '',
    partner.client_secret,
    oauth.ClientSecretPost(partner.client_secret),
    { execute: [oauth.allowInsecureRequests] },
  );
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

interface TokenInput {
  /** Name of a user in the stack file. */
  readonly user?: string;
  /** The shop to choose if the user has several. */
  readonly shop?: number;
  readonly scope?: string;
}

const emailOf = (user: string): string =>
  journey.stack.file.users.find(({ name }) => name === user)?.email ?? '';

/** Completes the pages of the authorization server like a merchant, and redeems the code. */
async function tokensFor(o: TokenInput = {}) {
  const { back, state, verifier } = await consented(o);
  const checks = { expectedState: state, pkceCodeVerifier: verifier };
  return oauth.authorizationCodeGrant(app, back.url, checks);
}

/** Completes the pages. `back` is at the app, or at the last page without a form that leads on. */
async function consented({ user = 'owner', shop, scope = 'developer_tools' }: TokenInput = {}) {
  const { partner, users } = journey.stack.file;
  const person = users.find(({ name }) => name === user);
  const verifier = oauth.randomPKCECodeVerifier();
  const state = oauth.randomState();
  const start = oauth.buildAuthorizationUrl(app, {
    redirect_uri: partner.redirect_uri ?? '',
    scope,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  const back = await browse(start, {
    fields: {
      email: person?.email ?? '',
      password: person?.password ?? '',
      ...(shop !== undefined && { shop_id: String(shop) }),
    },
    until: partner.redirect_uri ?? '',
  });
  return { back, state, verifier };
}

/** A request with a bearer token and no key. */
function withToken(token: string, sent: Sent): Promise<Received> {
  const authorization = `Bearer ${token}`;
  return journey.send({ ...sent, key: null, headers: { ...sent.headers, authorization } });
}

const WEBHOOKS = '/api/2026-10/webhooks';
const HOOK = { topic: 'return', trigger: 'return.closed', url: 'https://partner.example.com/in' };
const CHALLENGE = 'Bearer realm="rms", error="invalid_token", scope="developer_tools"';

test('the authorization server has the address that the interface defines', () => {
  const { authorization_endpoint, token_endpoint } = app.serverMetadata();
  const { auth_url } = journey.stack.file;
  expect(authorization_endpoint).toBe(`${auth_url}/authorize`);
  expect(token_endpoint).toBe(`${auth_url}/oauth/token`);
});

describe('a merchant lets an app manage webhooks', () => {
  test('the app creates, lists, changes and deletes them with its token', async () => {
    const { access_token, token_type, expires_in, scope } = await tokensFor();
    expect({ token_type, scope }).toEqual({ token_type: 'bearer', scope: 'developer_tools' });
    expect(expires_in).toBeLessThanOrEqual(3_600);

    const made = await withToken(access_token, { path: WEBHOOKS, json: HOOK });
    expect(made).toMatchObject({ status: 201, body: { id: expect.any(Number), status: 'active' } });
    const { id } = made.body as { id: number };
    const path = `${WEBHOOKS}/${id}`;
    const json = { ...HOOK, status: 'inactive' };
    expect((await withToken(access_token, { method: 'PUT', path, json })).status).toBe(204);
    const { body } = await withToken(access_token, { path: WEBHOOKS });
    expect(body).toContainEqual(expect.objectContaining({ id, status: 'inactive' }));
    expect((await withToken(access_token, { method: 'DELETE', path })).status).toBe(204);
    expect(await withToken(access_token, { method: 'DELETE', path })).toMatchObject({
      status: 404,
      body: { errors: { code: 'NOT_FOUND' } },
    });
  });

  test('a user of two shops chooses one, and the app can access only that one', async () => {
    const { stack } = journey;
    const { shop, otherShop } = stack;
    const member = [
      'member',
      'add',
      '--shop',
      String(otherShop.id),
      '--email',
      emailOf('two_shops'),
    ];
    await admin(stack, ...member, '--role', 'developer');
    const { access_token } = await tokensFor({ user: 'two_shops', shop: otherShop.id });
    const { body } = await withToken(access_token, { path: WEBHOOKS });
    const ids = (body as { id: number }[]).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(otherShop.fixtures.webhooks.map(({ id }) => id)));
    for (const { id } of shop.fixtures.webhooks) {
      const path = `${WEBHOOKS}/${id}`;
      expect(ids).not.toContain(id);
      expect((await withToken(access_token, { method: 'DELETE', path })).status).toBe(404);
    }
  });

  test('a token without the scope gets an error that names the missing scope', async () => {
    const { access_token } = await tokensFor();
    const { no_scope = '' } = journey.stack.shop.partner_tokens;
    expect((await withToken(access_token, { path: WEBHOOKS })).status).toBe(200);
    const refused = await withToken(no_scope, { path: WEBHOOKS });
    expect(refused).toMatchObject({ status: 401, body: { errors: 'Unauthorized.' } });
    expect(refused.headers['www-authenticate']).toContain('error="insufficient_scope"');
  });

  test('the token allows only webhooks', async () => {
    const { access_token } = await tokensFor();
    for (const sent of [
      { path: '/api/2026-10/cart', json: { cart: [1] } },
      { path: '/api/2026-10/warehouse/return/details?return_id=1' },
      { path: '/api/2026-10/dispositioning/assess', json: { items: [] } },
    ]) {
      expect((await withToken(access_token, sent)).status).toBe(401);
    }
    const asKey = { path: WEBHOOKS, key: access_token };
    expect((await journey.send(asKey)).status).toBe(401);
  });

  test('a code can be used once, and only with its verifier', async () => {
    const { partner, users } = journey.stack.file;
    const { email = '', password = '' } = users.find(({ name }) => name === 'owner') ?? {};
    const redirect_uri = partner.redirect_uri ?? '';
    const verifier = oauth.randomPKCECodeVerifier();
    const codeUrl = async () => {
      const start = oauth.buildAuthorizationUrl(app, {
        redirect_uri,
        scope: 'developer_tools',
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      });
      return (await browse(start, { fields: { email, password }, until: redirect_uri })).url;
    };
    const redeem = (url: URL, pkceCodeVerifier: string) =>
      oauth.authorizationCodeGrant(app, url, { pkceCodeVerifier });

    const refused = { error: 'invalid_grant' };
    const other = oauth.randomPKCECodeVerifier();
    await expect(redeem(await codeUrl(), other)).rejects.toMatchObject(refused);
    const url = await codeUrl();
    await redeem(url, verifier);
    await expect(redeem(url, verifier)).rejects.toMatchObject(refused);
  });
});

describe('people and their apps', () => {
  test('who may not manage webhooks reads whom to ask, and the app gets access_denied', async () => {
    const { back } = await consented({ user: 'analyst' });
    expect(back.url.searchParams.get('error')).toBe('access_denied');
    const page = back.pages.at(-1)?.text ?? '';
    expect(page).toContain('You may not connect this app');
    expect(page).toMatch(/owner \(Owner\).*developer \(Developer\)/);
  });

  test('the token ends within 5 seconds after its person is removed, and cannot be refreshed', async () => {
    const { stack } = journey;
    const member = ['--shop', String(stack.shop.id), '--email', emailOf('developer')];
    const tokens = await tokensFor({ user: 'developer' });
    const list = () => withToken(tokens.access_token, { path: WEBHOOKS });
    expect((await list()).status).toBe(200);
    await admin(stack, 'member', 'remove', ...member);
    await until(async (see) => see((await list()).status) === 401, 5_000);
    const refused = await list();
    expect(refused.body).toEqual({ errors: 'Unauthorized.' });
    expect(refused.headers['www-authenticate']).toBe(
      'Bearer realm="rms", error="insufficient_scope", scope="developer_tools"',
    );
    const refresh = oauth.refreshTokenGrant(app, tokens.refresh_token ?? '');
    await expect(refresh).rejects.toMatchObject({ error: 'invalid_grant' });
    await admin(stack, 'member', 'add', ...member, '--role', 'developer');
  });

  test('a refreshed token works, also for the labels of a label provider', async () => {
    const scope = 'developer_tools labels:write';
    const first = await tokensFor({ scope });
    const second = await oauth.refreshTokenGrant(app, first.refresh_token ?? '');
    expect(second.scope).toBe(scope);
    expect((await withToken(second.access_token, { path: WEBHOOKS })).status).toBe(200);
    const label = { path: '/api/2026-10/labels/1', method: 'PUT', json: {} };
    // The token has the scope, so the body is checked.
    expect((await withToken(second.access_token, label)).status).toBe(422);
  });
});

describe('a merchant removes an app', () => {
  test('its tokens are rejected within 5 seconds, and accepted again once the app is installed again', async () => {
    const { stack } = journey;
    const { access_token } = await tokensFor();
    const status = async () => (await withToken(access_token, { path: WEBHOOKS })).status;
    const installation = [
      ...['--shop', String(stack.shop.id)],
      ...['--issuer', stack.file.auth_url],
      ...['--client-id', stack.file.partner.client_id ?? ''],
    ];
    expect(await status()).toBe(200);

    await admin(stack, 'app', 'remove', ...installation);
    await until(async (see) => see(await status()) === 401, 5_000);
    const refused = await withToken(access_token, { path: WEBHOOKS });
    expect(refused.headers['www-authenticate']).toBe(CHALLENGE);
    const fresh = await tokensFor();
    expect((await withToken(fresh.access_token, { path: WEBHOOKS })).status).toBe(401);

    await admin(stack, 'app', 'install', ...installation);
    await until(async (see) => see(await status()) === 200, 5_000);
  });
});
