import { beforeAll, describe, expect, test } from '@jest/globals';
import * as oauth from 'openid-client';
import { browse } from '../../deploy/local/identity/testing/browser.ts';
import type { Received, Sent } from '../kit/gateway/rest-client.ts';
import { admin } from '../kit/journeys/admin.ts';
import { journeyForTests } from '../kit/journeys/journey.ts';
import { clientOf } from '../kit/oauth/partner-bench.ts';
import { until } from '../kit/until.ts';

const journey = journeyForTests();
let app: oauth.Configuration;
beforeAll(async () => {
  const { base_url, partner } = journey.stack.file;
  const secret = oauth.ClientSecretPost(partner.client_secret);
  app = await clientOf(base_url, partner.client_id ?? '', secret);
});

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
});

describe('people and their apps', () => {
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
  test('its tokens are rejected within 5 seconds; a new consent installs it again', async () => {
    const { stack } = journey;
    const { access_token, refresh_token } = await tokensFor();
    const status = async (token: string) => (await withToken(token, { path: WEBHOOKS })).status;
    expect(await status(access_token)).toBe(200);

    await admin(
      stack,
      ...['app', 'remove', '--shop', String(stack.shop.id)],
      ...['--issuer', stack.file.auth_url],
      ...['--client-id', stack.file.partner.client_id ?? ''],
    );
    await until(async (see) => see(await status(access_token)) === 401, 5_000);
    const refused = await withToken(access_token, { path: WEBHOOKS });
    expect(refused.headers['www-authenticate']).toBe(CHALLENGE);
    const refresh = oauth.refreshTokenGrant(app, refresh_token ?? '');
    await expect(refresh).rejects.toMatchObject({ error: 'invalid_grant' });

    const fresh = await tokensFor();
    expect(await status(fresh.access_token)).toBe(200);
  });
});
