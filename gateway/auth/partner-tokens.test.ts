import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { auditLogOf } from '../../test/kit/gateway/audit-log.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { installApp, removeApp } from '../tenancy/installations.ts';
import { addMember, removeMember } from '../tenancy/members.ts';
import { ROLE_PERMISSIONS, ROLES, type Role } from '../tenancy/permissions.ts';
import { linkAccount } from '../tenancy/sign-in-accounts.ts';

const ISSUER = 'https://auth.example.com';

const AUDIENCE = 'https://api.example.com';

describe('partner tokens', () => {
  let under: TestGateway;
  let send: (sent: Sent) => Promise<Received>;
  let jwks: Server;
  let jwksUrl: string;
  const keys: Record<string, CryptoKey> = {};

  beforeAll(async () => {
    const published: JWK[] = [];
    for (const alg of ['RS256', 'ES256', 'EdDSA', 'PS256']) {
      const pair = await generateKeyPair(alg);
      keys[alg] = pair.privateKey;
      published.push({ ...(await exportJWK(pair.publicKey)), kid: alg, alg });
    }
    keys.other = (await generateKeyPair('ES256')).privateKey;
    jwks = createServer((_req, res) => res.end(JSON.stringify({ keys: published }))).listen(0);
    await once(jwks, 'listening');
    const address = jwks.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    jwksUrl = `http://127.0.0.1:${port}/jwks`;
    under = await startTestGateway({
      PARTNER_ISSUER: ISSUER,
      PARTNER_JWKS_URL: jwksUrl,
      PUBLIC_BASE_URL: AUDIENCE,
      FAILED_CREDENTIALS_PER_MINUTE: 100_000,
    });
    send = restClient(under);
    await install(under, 'app');
    await install(under, 'of-another-issuer', 'https://elsewhere.example.com');
  });
  afterAll(async () => {
    await under.stop();
    jwks.close();
  });

  function install(gateway: TestGateway, clientId: string, issuer = ISSUER): Promise<void> {
    return installApp(gateway.database.pool, { shopId: 1n, issuer, clientId, by: TEST_AUTHOR });
  }

  const nowS = () => Math.floor(Date.now() / 1_000);

  interface TokenOptions {
    readonly claims?: Record<string, unknown>;
    readonly header?: Record<string, unknown>;
    readonly alg?: string;
    readonly key?: string;
  }

  function token(o: TokenOptions = {}): Promise<string> {
    const alg = o.alg ?? 'ES256';
    const key = keys[o.key ?? alg];
    if (!key) throw new Error('no such key');
    return new SignJWT({
      iss: ISSUER,
      aud: AUDIENCE,
      client_id: 'app',
      shop_id: 1,
      scope: 'openid developer_tools',
      exp: nowS() + 600,
      ...o.claims,
    })
      .setProtectedHeader({ alg, kid: alg, typ: 'at+jwt', ...o.header })
      .sign(key);
  }

  async function list(bearer: string, key: string | null = null): Promise<Received> {
    return send({ path: '/api/v1/webhooks', key, headers: { authorization: `Bearer ${bearer}` } });
  }

  describe("a partner's token", () => {
    test.each(['RS256', 'ES256', 'EdDSA'])('signed with %s is accepted', async (alg) => {
      expect((await list(await token({ alg }))).status).toBe(200);
    });

    test.each([
      ['an audience among several', { claims: { aud: ['x', AUDIENCE] } }],
      ['typ JWT', { header: { typ: 'JWT' } }],
      ['a shop id as text', { claims: { shop_id: '1' } }],
      ['azp instead of client_id', { claims: { client_id: undefined, azp: 'app' } }],
      [
        'a lifetime of an hour, most of it over',
        { claims: { iat: nowS() - 3_540, exp: nowS() + 60 } },
      ],
    ])('with %s is accepted', async (_, o) => {
      expect((await list(await token(o))).status).toBe(200);
    });

    test.each<[string, TokenOptions]>([
      ['another issuer', { claims: { iss: 'https://elsewhere.example.com' } }],
      ['another audience', { claims: { aud: 'https://elsewhere.example.com' } }],
      ['no audience', { claims: { aud: undefined } }],
      ['an expiry in the past', { claims: { exp: nowS() - 60 } }],
      ['no expiry', { claims: { exp: undefined } }],
      ['an expiry more than an hour in the future', { claims: { exp: nowS() + 3_700 } }],
      [
        'a lifetime of more than an hour, most of it over',
        { claims: { iat: nowS() - 3_600, exp: nowS() + 60 } },
      ],
      ['a start in the future', { claims: { nbf: nowS() + 600 } }],
      ['no shop', { claims: { shop_id: undefined } }],
      ['a shop that did not install the app', { claims: { shop_id: 2 } }],
      ['an app that is not installed', { claims: { client_id: 'other' } }],
      ['an app installed for another issuer', { claims: { client_id: 'of-another-issuer' } }],
      ['another type', { header: { typ: 'logout+jwt' } }],
      ['an algorithm that is not accepted', { alg: 'PS256' }],
      ['another private key', { key: 'other' }],
      ['an unknown key id', { header: { kid: 'unknown' } }],
      ['a shop id out of range', { claims: { shop_id: -1 } }],
    ])('with %s is rejected', async (_, o) => {
      const response = await list(await token(o));
      expect(response).toMatchObject({ status: 401, body: { errors: 'Unauthorized.' } });
      expect(response.headers['www-authenticate']).toBe(
        'Bearer realm="rms", error="invalid_token", scope="developer_tools"',
      );
    });

    test.each(['', 'x', 'a.b.c', `${'e'.repeat(9_000)}.e.e`])(
      '%# nonsense is rejected',
      async (text) => {
        expect((await list(text)).status).toBe(401);
      },
    );

    test('without a signature is rejected', async () => {
      const [, payload] = (await token()).split('.');
      const header = Buffer.from('{"alg":"none"}').toString('base64url');
      expect((await list(`${header}.${payload}.`)).status).toBe(401);
    });

    test('appears as the actor of its writes', async () => {
      const requestId = randomUUID();
      const headers = { authorization: `Bearer ${await token()}`, 'x-request-id': requestId };
      const json = { topic: 'return', trigger: 'return.closed', url: 'https://hooks.example.com/' };
      expect((await send({ path: '/api/v1/webhooks', key: null, headers, json })).status).toBe(201);
      expect(await auditLogOf(under.database.pool, { request_id: requestId })).toMatchObject([
        { actor_kind: 'partner_app', actor_id: 'app' },
      ]);
    });

    test('works in a sandbox shop, whose responses say so', async () => {
      const shopId = await under.newShop({ sandbox: true });
      await installApp(under.database.pool, {
        shopId,
        issuer: ISSUER,
        clientId: 'both',
        by: TEST_AUTHOR,
      });
      const inSandbox = await list(
        await token({ claims: { shop_id: Number(shopId), client_id: 'both' } }),
      );
      expect(inSandbox).toMatchObject({
        status: 200,
        headers: { 'x-service-environment': 'sandbox' },
      });
      expect((await list(await token())).headers).not.toHaveProperty('x-service-environment');
    });

    test('without the scope is rejected with insufficient_scope', async () => {
      const response = await list(await token({ claims: { scope: 'openid' } }));
      expect(response).toMatchObject({ status: 401, body: { errors: 'Unauthorized.' } });
      expect(response.headers['www-authenticate']).toContain('error="insufficient_scope"');
    });

    test('has precedence over a key in the same request', async () => {
      expect((await list('bad', under.key)).status).toBe(401);
      expect((await list(await token(), 'bad')).status).toBe(200);
    });

    test('is accepted only for webhook operations', async () => {
      const headers = { authorization: `Bearer ${await token({ claims: { scope: 'carts' } })}` };
      expect(
        (await send({ path: '/api/v1/cart', json: { cart: [1] }, key: null, headers })).status,
      ).toBe(401);
      const asKey = await send({ path: '/api/v1/webhooks', key: await token() });
      expect(asKey.status).toBe(401);
    });

    test('is rejected within 5 seconds after the installation is removed', async () => {
      const app = { shopId: 1n, issuer: ISSUER, clientId: 'removed', by: TEST_AUTHOR };
      await install(under, 'removed');
      const removed = await token({ claims: { client_id: 'removed' } });
      expect((await list(removed)).status).toBe(200);
      await removeApp(under.database.pool, app);
      await until(async () => (await list(removed)).status === 401, 5_000);
    });
  });

  describe("a gateway with a configured claim and limit for partners' tokens", () => {
    let configured: TestGateway;
    beforeAll(async () => {
      configured = await startTestGateway({
        PARTNER_ISSUER: ISSUER,
        PARTNER_JWKS_URL: jwksUrl,
        PARTNER_SHOP_CLAIM: 'https://claims.example.com/tenant',
        PUBLIC_BASE_URL: AUDIENCE,
        REST_PER_MINUTE: 3,
      });
      for (const app of ['counted', 'other']) await install(configured, app);
    });
    afterAll(() => configured.stop());

    const statusOf = async (clientId: string, claims: object): Promise<number> => {
      const bearer = await token({
        claims: { client_id: clientId, shop_id: undefined, ...claims },
      });
      const headers = { authorization: `Bearer ${bearer}` };
      return (await restClient(configured)({ path: '/api/v1/webhooks', key: null, headers }))
        .status;
    };
    const tenant = { 'https://claims.example.com/tenant': 1 };

    test('reads the shop only from that claim', async () => {
      expect(await statusOf('other', tenant)).toBe(200);
      expect(await statusOf('other', { shop_id: 1 })).toBe(401);
    });

    test('counts all tokens of an installation together', async () => {
      const statuses = [];
      for (const jti of ['a', 'b', 'c', 'd', 'e']) {
        statuses.push(await statusOf('counted', { ...tenant, jti }));
      }
      expect(statuses).toEqual([200, 200, 200, 429, 429]);
      expect(await statusOf('other', tenant)).toBe(200);
    });
  });

  test('while the authorization server is unavailable, a new token gets 503, not 401', async () => {
    const gateway = await startTestGateway({
      PARTNER_ISSUER: ISSUER,
      PARTNER_JWKS_URL: 'http://127.0.0.1:1/jwks',
      PUBLIC_BASE_URL: AUDIENCE,
    });
    const headers = { authorization: `Bearer ${await token()}` };
    const response = await restClient(gateway)({ path: '/api/v1/webhooks', key: null, headers });
    expect(response).toMatchObject({ status: 503, headers: { 'retry-after': expect.any(String) } });
    await gateway.stop();
  });
});

describe('partner people', () => {
  const CLIENT = 'app';
  const CHALLENGE = 'Bearer realm="rms", error="insufficient_scope", scope="developer_tools"';

  let jwks: Server;
  let key: CryptoKey;
  let bySubject: TestGateway;
  let byEmail: TestGateway;

  beforeAll(async () => {
    const pair = await generateKeyPair('ES256');
    key = pair.privateKey;
    const keys = [{ ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'ES256' }];
    jwks = createServer((_req, res) => res.end(JSON.stringify({ keys })));
    await once(jwks.listen(0, '127.0.0.1'), 'listening');
    const { port } = jwks.address() as AddressInfo;
    const start = async (PARTNER_USER_CLAIM: string) => {
      const gateway = await startTestGateway({
        PARTNER_ISSUER: ISSUER,
        PARTNER_JWKS_URL: `http://127.0.0.1:${port}/jwks`,
        PUBLIC_BASE_URL: AUDIENCE,
        PARTNER_USER_CLAIM,
      });
      const { pool } = gateway.database;
      await installApp(pool, { shopId: 1n, issuer: ISSUER, clientId: CLIENT, by: TEST_AUTHOR });
      return gateway;
    };
    [bySubject, byEmail] = [await start('sub'), await start('email')];
  });
  afterAll(async () => {
    await Promise.all([bySubject?.stop(), byEmail?.stop()]);
    jwks?.close();
  });

  /** Lists the webhooks with a token with these claims. */
  async function listWith(
    gateway: TestGateway,
    claims: Record<string, unknown>,
  ): Promise<Received> {
    const now = Math.floor(Date.now() / 1_000);
    const token = await new SignJWT({
      iss: ISSUER,
      aud: AUDIENCE,
      client_id: CLIENT,
      shop_id: 1,
      scope: 'developer_tools',
      iat: now,
      exp: now + 600,
      ...claims,
    })
      .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ: 'at+jwt' })
      .sign(key);
    const headers = { authorization: `Bearer ${token}` };
    return restClient(gateway)({ path: '/api/v1/webhooks', key: null, headers });
  }

  let people = 0;
  /** Adds a member, and links the account with the returned subject. */
  async function member(gateway: TestGateway, role: Role, issuer = ISSUER) {
    const { pool } = gateway.database;
    people += 1;
    const email = `person-${people}@example.com`;
    const subject = `account-${people}`;
    await addMember(pool, { shopId: 1n, email, role, by: TEST_AUTHOR });
    await linkAccount(pool, { email, account: { issuer, subject } });
    return { email, subject };
  }

  test('another claim than sub names nobody by the subject of an account', async () => {
    const { email, subject } = await member(byEmail, 'developer');
    expect((await listWith(byEmail, { sub: subject, email })).status).toBe(200);
    expect((await listWith(byEmail, { sub: 'app', email: subject })).status).toBe(401);
  });

  const REFUSED = { status: 401, body: { errors: 'Unauthorized.' } };

  describe('a token with the account of a person', () => {
    test.each(ROLES)('%s: works only with the permission to manage webhooks', async (role) => {
      const { subject } = await member(bySubject, role);
      const response = await listWith(bySubject, { sub: subject });
      if (ROLE_PERMISSIONS[role].includes('developer.manage')) {
        expect(response.status).toBe(200);
        return;
      }
      expect(response).toMatchObject(REFUSED);
      expect(response.headers['www-authenticate']).toBe(CHALLENGE);
    });

    test('is rejected for an account that no member has', async () => {
      expect(await listWith(bySubject, { sub: 'account-of-nobody' })).toMatchObject(REFUSED);
      const { subject } = await member(bySubject, 'owner', 'https://elsewhere.example.com');
      expect(await listWith(bySubject, { sub: subject })).toMatchObject(REFUSED);
    });

    test('ends within 5 seconds after the member is removed, and after the role is changed', async () => {
      const { pool } = bySubject.database;
      const [removed, demoted] = [
        await member(bySubject, 'developer'),
        await member(bySubject, 'admin'),
      ];
      const statusOf = async ({ subject }: { subject: string }) =>
        (await listWith(bySubject, { sub: subject })).status;
      expect([await statusOf(removed), await statusOf(demoted)]).toEqual([200, 200]);
      await removeMember(pool, { shopId: 1n, email: removed.email, by: TEST_AUTHOR });
      await addMember(pool, { shopId: 1n, email: demoted.email, role: 'analyst', by: TEST_AUTHOR });
      await until(async () => (await statusOf(removed)) === 401, 5_000);
      await until(async () => (await statusOf(demoted)) === 401, 5_000);
      await addMember(pool, {
        shopId: 1n,
        email: demoted.email,
        role: 'developer',
        by: TEST_AUTHOR,
      });
      await until(async () => (await statusOf(demoted)) === 200, 5_000);
    });

    test.each([
      ['without the claim', {}],
      ['of the app itself', { sub: CLIENT }],
    ])('%s it names no person, and works', async (_, claims) => {
      expect((await listWith(bySubject, claims)).status).toBe(200);
    });

    test.each([[''], [7], ['x'.repeat(321)]])('%# is invalid with such a claim', async (sub) => {
      const response = await listWith(bySubject, { sub });
      expect(response).toMatchObject(REFUSED);
      expect(response.headers['www-authenticate']).toContain('error="invalid_token"');
    });
  });

  describe('a token with the e-mail address of a person', () => {
    test('works for a member with the permission, in any spelling of the address', async () => {
      const { email, subject } = await member(byEmail, 'developer');
      for (const claims of [
        { email, sub: subject },
        { email: ` ${email.toUpperCase()} `, sub: subject },
      ]) {
        expect((await listWith(byEmail, claims)).status).toBe(200);
      }
      const analyst = await member(byEmail, 'analyst');
      expect(await listWith(byEmail, { email: analyst.email, sub: analyst.subject })).toMatchObject(
        REFUSED,
      );
    });

    test('works when the member signs in elsewhere', async () => {
      const { email } = await member(byEmail, 'developer', 'https://elsewhere.example.com');
      expect((await listWith(byEmail, { email, sub: 'another' })).status).toBe(200);
    });

    test('is rejected when the address now belongs to another account of this issuer', async () => {
      const { email } = await member(byEmail, 'developer');
      expect(await listWith(byEmail, { email, sub: 'new-owner' })).toMatchObject(REFUSED);
      expect(await listWith(byEmail, { email })).toMatchObject(REFUSED);
    });

    test('names no person without the claim, and works', async () => {
      expect((await listWith(byEmail, { sub: 'service' })).status).toBe(200);
    });
  });
});
