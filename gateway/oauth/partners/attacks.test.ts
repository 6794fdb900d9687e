import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { importJWK, SignJWT } from 'jose';
import * as oauth from 'openid-client';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import { TEST_AUTHOR } from '../../../test/kit/gateway/test-gateway.ts';
import {
  APP_REDIRECT,
  claimsIn,
  clientOf,
  type PartnerBench,
  redirectedWith,
  startPartnerBench,
  type TestApp,
} from '../../../test/kit/oauth/partner-bench.ts';
import type { Person } from '../../../test/kit/oauth/sign-in-stack.ts';
import { until } from '../../../test/kit/until.ts';
import { removeApp } from '../../tenancy/installations.ts';
import { addMember, removeMember } from '../../tenancy/members.ts';
import { removePartnerApp } from '../../tenancy/partner-apps.ts';
import { createOAuthKeys } from '../tokens/keys.ts';
import { partnerIssuer } from './address.ts';

const keyring = parseKeyring(newKeyringText());
let bench: PartnerBench;
let app: TestApp;
let owner: Person;
const lines: string[] = [];
beforeAll(async () => {
  const logDestination = { write: (line: string): void => void lines.push(line) };
  bench = await startPartnerBench({ OAUTH_KEYRING: keyring, logDestination, LOG_LEVEL: 'info' });
  app = await bench.newApp();
  owner = await bench.stack.newPerson();
});
afterAll(() => bench.stop());

const pool = () => bench.stack.under.database.pool;
const INVALID_GRANT = { error: 'invalid_grant' };
/** The time within which every replica notices a change. Milliseconds. */
const NOTICED_MS = 5_000;

const isRejected = (token: string) =>
  until(async (see) => see((await bench.call(token)).status) === 401, NOTICED_MS);

const refresh = (refreshToken: string | undefined, o: { of?: TestApp; scope?: string } = {}) =>
  oauth.refreshTokenGrant((o.of ?? app).config, refreshToken ?? '', {
    ...(o.scope !== undefined && { scope: o.scope }),
  });

/** Moves the first use of every code and refresh token into the past. */
const ageUses = () =>
  pool().query("update partner_tickets set consumed_at = consumed_at - interval '1 minute'");

describe('a code', () => {
  test('works once; a later use ends the access', async () => {
    const visit = await bench.visit(app, owner);
    const { access_token, refresh_token } = await bench.redeem(app, visit);
    expect((await bench.call(access_token)).status).toBe(200);
    await ageUses();
    await expect(bench.redeem(app, visit)).rejects.toMatchObject(INVALID_GRANT);
    await expect(refresh(refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    await isRejected(access_token);
  });

  test('works once also for 8 requests at the same time', async () => {
    const visit = await bench.visit(app, owner);
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => bench.redeem(app, visit)));
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('works for 60 seconds', async () => {
    const visit = await bench.visit(app, owner);
    const { rows } = await pool().query<{ seconds: number }>(
      `select extract(epoch from max(expires_at - created_at))::int as seconds from partner_tickets
        where kind = 'AuthorizationCode'`,
    );
    expect(rows).toEqual([{ seconds: 60 }]);
    await pool().query(
      "update partner_tickets set expires_at = now() - interval '1 second' where kind = 'AuthorizationCode'",
    );
    await expect(bench.redeem(app, visit)).rejects.toMatchObject(INVALID_GRANT);
  });

  test('works only with its verifier, its redirect URI and its app', async () => {
    const other = await bench.newApp({ redirectUris: [APP_REDIRECT, `${APP_REDIRECT}/2`] });
    const visit = await bench.visit(other, owner);
    const grant = (more: Record<string, string>, of = other) =>
      oauth.genericGrantRequest(of.config, 'authorization_code', {
        code: visit.url.searchParams.get('code') ?? '',
        redirect_uri: APP_REDIRECT,
        code_verifier: visit.asked.verifier,
        ...more,
      });
    for (const more of [
      { code_verifier: oauth.randomPKCECodeVerifier() },
      { code_verifier: '' },
      { redirect_uri: `${APP_REDIRECT}/2` },
    ]) {
      await expect(grant(more)).rejects.toMatchObject(INVALID_GRANT);
    }
    await expect(grant({}, app)).rejects.toMatchObject(INVALID_GRANT);
    await expect(grant({ resource: 'https://evil.example' })).rejects.toMatchObject({
      error: 'invalid_target',
    });
    expect((await grant({})).scope).toBe('developer_tools');
  });

  test.each([
    ['without PKCE', { code_challenge: undefined, code_challenge_method: undefined }],
    ['with a plain challenge', { code_challenge_method: 'plain' }],
  ])('is not issued %s', async (_, more) => {
    const refused = await bench.visit(app, owner, { asked: await bench.ask(app, { more }) });
    expect(redirectedWith(refused)).toMatchObject({ error: 'invalid_request' });
  });
});

describe('a redirect', () => {
  test.each([
    ['an unknown app', { client_id: 'stranger<b>' }, 'This app is not known here'],
    ['another host', { redirect_uri: 'https://evil.example.com/' }, 'is not registered'],
    ['a longer path', { redirect_uri: `${APP_REDIRECT}/` }, 'is not registered'],
    ['a query', { redirect_uri: `${APP_REDIRECT}?a=1` }, 'is not registered'],
    ['no address', { redirect_uri: undefined }, 'is not registered'],
  ])('to %s never happens: a page explains it', async (_, more, text) => {
    const { url } = await bench.ask(app, { more });
    const shown = await fetch(url, { redirect: 'manual' });
    const page = await shown.text();
    expect([shown.status, shown.headers.get('location'), page]).toEqual([
      400,
      null,
      expect.stringContaining(text),
    ]);
    expect(page).not.toContain('<b>');
  });
});

describe('a refresh token', () => {
  test('works once, and keeps shop, person and scopes', async () => {
    const scope = 'developer_tools labels:write';
    const first = await bench.tokens(app, owner, { scope });
    const second = await refresh(first.refresh_token, { scope: 'labels:write offline_access' });
    expect(second.refresh_token).not.toBe(first.refresh_token);
    // 256 random bits.
    for (const one of [first, second]) expect(one.refresh_token).toMatch(/^[\w-]{43}$/);
    expect(claimsIn(second.access_token)).toMatchObject({
      shop_id: Number(owner.shopIds[0]),
      sub: String(owner.userId),
      scope: 'labels:write',
    });
    expect((await refresh(second.refresh_token)).scope).toBe(scope);
  });

  test('works for 30 days, and a grant for 90, with all its tokens', async () => {
    const pass = (days: number) =>
      pool().query("update partner_tickets set expires_at = expires_at - $1 * interval '1 day'", [
        days,
      ]);
    const first = await bench.tokens(app, owner);
    await pass(29);
    const second = await refresh(first.refresh_token);
    await pass(30);
    await expect(refresh(second.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    const last = await bench.tokens(app, owner);
    const { rows } = await pool().query(
      'select distinct extract(day from expires_at - created_at)::int as days from partner_grants',
    );
    expect(rows).toEqual([{ days: 90 }]);
    await pool().query('update partner_grants set expires_at = now()');
    await isRejected(last.access_token);
    await expect(refresh(last.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
  });

  test('that is used twice ends the access, without a time of grace', async () => {
    const first = await bench.tokens(app, owner);
    const second = await refresh(first.refresh_token);
    await expect(refresh(first.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    await expect(refresh(second.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    await isRejected(second.access_token);
  });

  test('of 8 requests at once gives at most one token, and ends the access', async () => {
    const { refresh_token } = await bench.tokens(app, owner);
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => refresh(refresh_token)));
    const fresh = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const failed = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect(fresh.length).toBeLessThanOrEqual(1);
    for (const one of failed) expect(one).toMatchObject({ status: 400, ...INVALID_GRANT });
    for (const one of fresh) {
      await expect(refresh(one.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    }
  });

  test('of another app is rejected, and stays as it is', async () => {
    const other = await bench.newApp();
    const { refresh_token } = await bench.tokens(app, owner);
    await expect(refresh(refresh_token, { of: other })).rejects.toMatchObject(INVALID_GRANT);
    expect((await refresh(refresh_token)).scope).toBe('developer_tools');
  });
});

describe('a revocation', () => {
  test.each(['access_token', 'refresh_token'] as const)('of the %s ends both', async (kind) => {
    const tokens = await bench.tokens(app, owner);
    expect((await bench.call(tokens.access_token)).status).toBe(200);
    await oauth.tokenRevocation(app.config, tokens[kind] ?? '');
    await expect(refresh(tokens.refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    await isRejected(tokens.access_token);
    await oauth.tokenRevocation(app.config, tokens[kind] ?? '');
  });

  test('by another app, or without the secret, ends nothing', async () => {
    const { refresh_token = '' } = await bench.tokens(app, owner);
    const other = await bench.newApp();
    await expect(oauth.tokenRevocation(other.config, refresh_token)).rejects.toMatchObject({
      error: 'unauthorized_client',
    });
    const { baseUrl } = bench.stack;
    for (const [auth, refused] of [
      [oauth.None(), { error: 'invalid_client' }],
      [oauth.ClientSecretPost('x'), { error: 'invalid_client' }],
      [oauth.ClientSecretBasic('x'), { status: 401 }],
    ] as const) {
      const config = await clientOf(baseUrl, app.clientId, auth);
      await expect(oauth.tokenRevocation(config, refresh_token)).rejects.toMatchObject(refused);
      await expect(refresh('x', { of: { ...app, config } })).rejects.toMatchObject(refused);
    }
    // Each failed proof of an app has a line with the address and the request.
    const of = { error: 'invalid_client', source: '127.0.0.1', requestId: expect.any(String) };
    const logged = lines.map((line) => JSON.parse(line)).filter(({ error }) => error === of.error);
    expect(logged).toMatchObject(Array(3).fill([of, of]).flat());
    expect((await refresh(refresh_token)).scope).toBe('developer_tools');
  });
});

describe('the access of an app', () => {
  const memberOf = async () => {
    const person = await bench.stack.newPerson();
    const [shopId = 0n] = person.shopIds;
    // A shop keeps an owner.
    const email = `${shopId}-second@example.com`;
    await addMember(pool(), { shopId, email, role: 'owner', by: TEST_AUTHOR });
    return { person, change: { shopId, email: person.email, by: TEST_AUTHOR } };
  };

  test.each([
    ['leaves the shop', (change) => removeMember(pool(), change)],
    ['loses the right', (change) => addMember(pool(), { ...change, role: 'analyst' })],
  ] satisfies [string, (change: Parameters<typeof removeMember>[1]) => Promise<unknown>][])(
    'ends within 5 seconds when the person %s, for good',
    async (_, end) => {
      const { person, change } = await memberOf();
      const { access_token, refresh_token } = await bench.tokens(app, person);
      expect((await bench.call(access_token)).status).toBe(200);
      await end(change);
      await isRejected(access_token);
      const { headers } = await bench.call(access_token);
      expect(headers['www-authenticate']).toContain('error="insufficient_scope"');
      await expect(refresh(refresh_token)).rejects.toMatchObject(INVALID_GRANT);
      await addMember(pool(), { ...change, role: 'developer' });
      await expect(refresh(refresh_token)).rejects.toMatchObject(INVALID_GRANT);
      await isRejected(access_token);
    },
  );

  test('ends within 5 seconds when the shop removes it; a new consent installs it again', async () => {
    const { person, change } = await memberOf();
    const { access_token, refresh_token } = await bench.tokens(app, person);
    expect((await bench.call(access_token)).status).toBe(200);
    const { shopId, by } = change;
    const { clientId } = app;
    await removeApp(pool(), { shopId, issuer: partnerIssuer(bench.stack.baseUrl), clientId, by });
    await isRejected(access_token);
    await expect(refresh(refresh_token)).rejects.toMatchObject(INVALID_GRANT);
    expect((await bench.call((await bench.tokens(app, person)).access_token)).status).toBe(200);
    await isRejected(access_token);
  });

  test('ends within 5 seconds when the operator removes the app, in every shop', async () => {
    const removed = await bench.newApp();
    const { access_token, refresh_token } = await bench.tokens(removed, owner);
    expect((await bench.call(access_token)).status).toBe(200);
    const issuer = partnerIssuer(bench.stack.baseUrl);
    const { clientId } = removed;
    expect(await removePartnerApp(pool(), { clientId, issuer, by: TEST_AUTHOR })).toBe(1);
    await isRejected(access_token);
    await expect(refresh(refresh_token, { of: removed })).rejects.toMatchObject({ status: 401 });
    const shown = await bench.visit(removed, owner);
    expect([shown.status, shown.text]).toEqual([400, expect.stringContaining('not known here')]);
  });
});

describe('the tokens of the two servers', () => {
  const mcp = async (token: string): Promise<number> => {
    const response = await fetch(`${bench.stack.baseUrl}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    return response.status;
  };

  test('are accepted by their own API only', async () => {
    const { access_token: ofApp, refresh_token } = await bench.tokens(app, owner);
    const { body } = await bench.stack.tokens(owner);
    const ofAssistant = String(body.access_token);
    expect([(await bench.call(ofApp)).status, await mcp(ofAssistant)]).toEqual([200, 200]);
    expect([(await bench.call(ofAssistant)).status, await mcp(ofApp)]).toEqual([401, 401]);
    // Codes and refresh tokens, too.
    const response = await bench.stack.token({
      grant_type: 'refresh_token',
      refresh_token: refresh_token ?? '',
    });
    expect(response).toMatchObject({ status: 400, body: INVALID_GRANT });
    await expect(refresh(String(body.refresh_token))).rejects.toMatchObject(INVALID_GRANT);
  });

  test('have other keys: a token with the claims of one server and the key of the other is rejected', async () => {
    const { access_token: ofApp } = await bench.tokens(app, owner);
    const ofAssistant = String((await bench.stack.tokens(owner)).body.access_token);
    const sign = async (claims: Record<string, unknown>, table: 'oauth_keys' | 'partner_keys') => {
      const { kid, privateJwk } = await createOAuthKeys(pool(), keyring, table).signing();
      const header = { alg: 'ES256', typ: 'at+jwt', kid };
      return new SignJWT(claims).setProtectedHeader(header).sign(await importJWK(privateJwk));
    };
    const apps = claimsIn(ofApp);
    const assistants = claimsIn(ofAssistant);
    expect((await bench.call(await sign(apps, 'partner_keys'))).status).toBe(200);
    expect((await bench.call(await sign(apps, 'oauth_keys'))).status).toBe(401);
    expect(await mcp(await sign(assistants, 'oauth_keys'))).toBe(200);
    expect(await mcp(await sign(assistants, 'partner_keys'))).toBe(401);
  });

  test.each<[string, Record<string, unknown>, string?]>([
    ['issuer', { iss: 'BASE' }],
    ['audience', { aud: 'BASE/mcp' }],
    ['shop', { shop_id: 1 }],
    ['app', { client_id: 'another' }],
    ['person', { sub: '1' }],
    ['grant', { grant_id: 'x'.repeat(43) }],
    ['time', { exp: 1 }],
    ['type', {}, 'JWT'],
  ])('with our key, but another %s are rejected', async (_, changes, typ = 'at+jwt') => {
    const { access_token } = await bench.tokens(app, owner);
    const { baseUrl } = bench.stack;
    const changed = Object.entries(changes).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.replace('BASE', baseUrl) : value,
    ]);
    const keys = createOAuthKeys(pool(), keyring, 'partner_keys');
    const { kid, privateJwk } = await keys.signing();
    const token = await new SignJWT({ ...claimsIn(access_token), ...Object.fromEntries(changed) })
      .setProtectedHeader({ alg: 'ES256', typ, kid })
      .sign(await importJWK(privateJwk));
    expect((await bench.call(token)).status).toBe(401);
  });
});
