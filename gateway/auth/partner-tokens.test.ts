import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { installApp, removeApp } from '../tenancy/installations.ts';

const ISSUER = 'https://auth.example.com';
const AUDIENCE = 'https://api.example.com';

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
    const { rows } = await under.database.pool.query(
      `select actor_kind, actor_id from audit_log where request_id = $1 and detail->>'phase' = 'asked'`,
      [requestId],
    );
    expect(rows).toEqual([{ actor_kind: 'partner_app', actor_id: 'app' }]);
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
    const bearer = await token({ claims: { client_id: clientId, shop_id: undefined, ...claims } });
    const headers = { authorization: `Bearer ${bearer}` };
    return (await restClient(configured)({ path: '/api/v1/webhooks', key: null, headers })).status;
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
