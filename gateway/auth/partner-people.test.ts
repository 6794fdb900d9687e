import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import { type Received, restClient } from '../../test/kit/gateway/rest-client.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import { installApp } from '../tenancy/installations.ts';
import { addMember, removeMember } from '../tenancy/members.ts';
import { ROLE_PERMISSIONS, ROLES, type Role } from '../tenancy/permissions.ts';
import { linkAccount } from '../tenancy/sign-in-accounts.ts';

const ISSUER = 'https://auth.example.com';
const AUDIENCE = 'https://api.example.com';
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
}, 60_000);
afterAll(async () => {
  await Promise.all([bySubject?.stop(), byEmail?.stop()]);
  jwks?.close();
});

/** Lists the webhooks with a token with these claims. */
async function listWith(gateway: TestGateway, claims: Record<string, unknown>): Promise<Received> {
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
    await addMember(pool, { shopId: 1n, email: demoted.email, role: 'developer', by: TEST_AUTHOR });
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
