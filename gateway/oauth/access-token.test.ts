import { createPublicKey, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, generateKeyPair, importJWK, SignJWT } from 'jose';
import { newKeyringText, parseKeyring } from '../../services/platform/keyring.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { addMember, removeMember } from '../tenancy/members.ts';
import { type AccessTokenCheck, createAccessTokenCheck } from './access-token.ts';
import { issueAccessToken } from './issue.ts';
import { createOAuthKeys, type OAuthKeys, rotateOAuthKey } from './keys.ts';

const ISSUER = 'https://returns.example.com';
const RESOURCE = `${ISSUER}/mcp`;

let db: TestDatabase;
let keys: OAuthKeys;
let tokens: AccessTokenCheck;
const keyring = parseKeyring(newKeyringText());
const checkWith = (other: OAuthKeys) =>
  createAccessTokenCheck({ pool: db.pool, issuer: ISSUER, resource: RESOURCE, keys: other });

beforeAll(async () => {
  db = await createTestDatabase('gateway');
  keys = createOAuthKeys(db.pool, keyring);
  tokens = checkWith(keys);
});
afterAll(() => db.drop());

/** A member of a new shop. */
async function newMember(): Promise<{ userId: bigint; shopId: bigint; email: string }> {
  const { rows } = await db.pool.query<{ id: bigint }>(
    `with founder as (insert into users (email) values (gen_random_uuid() || '@example.com') returning id)
     insert into shops (name, currency, founder_id) select 'Shop', 'GBP', id from founder returning id`,
  );
  const shopId = rows[0]?.id ?? 0n;
  const email = `${randomUUID()}@example.com`;
  await addMember(db.pool, {
    shopId,
    email: `${randomUUID()}@example.com`,
    role: 'owner',
    by: TEST_AUTHOR,
  });
  const { userId } = await addMember(db.pool, {
    shopId,
    email,
    role: 'admin',
    name: 'Ada',
    by: TEST_AUTHOR,
  });
  return { userId, shopId, email };
}

const issue = (o: { userId: bigint; shopId: bigint; ttlS?: number }): Promise<string> =>
  issueAccessToken(db.pool, keys, { issuer: ISSUER, clientId: 'client', ...o });

describe('access tokens', () => {
  test('identify a user in one shop, with the current role and names', async () => {
    const { userId, shopId, email } = await newMember();
    const token = await issue({ userId, shopId });
    const signedIn = {
      userId,
      email,
      name: 'Ada',
      shopId,
      shopName: 'Shop',
      sandbox: false,
      currency: 'GBP',
    };
    const grantId: unknown = expect.any(String);
    const ofGrant = { clientId: 'client', app: null, grantId, isReadOnly: false, selfName: null };
    expect(await tokens.check(token)).toEqual({ ...signedIn, role: 'admin', ...ofGrant });

    await addMember(db.pool, { shopId, email, role: 'analyst', by: TEST_AUTHOR });
    expect(await tokens.check(token)).toMatchObject({ role: 'analyst' });
    await removeMember(db.pool, { shopId, email, by: TEST_AUTHOR });
    expect(await tokens.check(token)).toBeUndefined();
  });

  test('are rejected after their grant is revoked', async () => {
    const member = await newMember();
    const token = await issue(member);
    const other = await issue(member);
    const { grant_id: grantId } = JSON.parse(
      Buffer.from(token.split('.')[1] ?? '', 'base64url').toString(),
    );
    expect(await tokens.check(token)).toBeDefined();
    await db.pool.query('update oauth_grants set revoked_at = now() where id = $1', [grantId]);
    expect(await tokens.check(token)).toBeUndefined();
    expect(await tokens.check(other)).toBeDefined();
  });

  test('expire', async () => {
    expect(await tokens.check(await issue({ ...(await newMember()), ttlS: -30 }))).toBeUndefined();
  });

  test('are not accepted while the database is unavailable', async () => {
    const cut = await createTestDatabase('gateway');
    const withoutDatabase = createAccessTokenCheck({
      pool: cut.pool,
      issuer: ISSUER,
      resource: RESOURCE,
      keys,
    });
    const token = await issue(await newMember());
    await cut.drop();
    await expect(withoutDatabase.check(token)).rejects.toThrow();
  });
});

describe('forged tokens', () => {
  /** Issues a token and replaces some of its parts. Signs it with the service's key unless `key` is given. */
  async function forge(o: {
    claims?: Record<string, unknown>;
    header?: Record<string, unknown>;
    key?: CryptoKey | Uint8Array;
  }): Promise<string> {
    const { userId, shopId } = await newMember();
    const real = await issue({ userId, shopId });
    const [head = '', body = ''] = real.split('.');
    const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());
    const { privateJwk } = await keys.signing();
    return new SignJWT({ ...read(body), ...o.claims })
      .setProtectedHeader({ ...read(head), ...o.header })
      .sign(o.key ?? (await importJWK(privateJwk, 'ES256')));
  }

  test('are accepted without a change, so that the rows below fail for one reason', async () => {
    expect(await tokens.check(await forge({}))).toBeDefined();
  });

  const hour = 3_600;
  const now = Math.floor(Date.now() / 1_000);
  test.each<[string, Parameters<typeof forge>[0]]>([
    ['another audience', { claims: { aud: ISSUER } }],
    ['the audience of another service', { claims: { aud: 'https://elsewhere.example/mcp' } }],
    ['another issuer', { claims: { iss: 'https://elsewhere.example' } }],
    ['the type of an id token', { header: { typ: 'JWT' } }],
    ['no type', { header: { typ: undefined } }],
    ['an unknown key', { header: { kid: 'nobody' } }],
    ['no key', { header: { kid: undefined } }],
    ['an expiry in the past', { claims: { exp: now - hour } }],
    ['a start in the future', { claims: { nbf: now + hour } }],
    ['no expiry', { claims: { exp: undefined } }],
    ['another scope', { claims: { scope: 'developer_tools' } }],
    ['no scope', { claims: { scope: undefined } }],
    ['another shop', { claims: { shop_id: '999999' } }],
    ['a shop that is a number', { claims: { shop_id: 1 } }],
    ['another user', { claims: { sub: '999999' } }],
    ['another client', { claims: { client_id: 'other' } }],
    ['another grant', { claims: { grant_id: 'x'.repeat(43) } }],
  ])('with %s are rejected', async (_, change) => {
    expect(await tokens.check(await forge(change))).toBeUndefined();
  });

  test('signed with another key under our key id are rejected', async () => {
    const { privateKey } = await generateKeyPair('ES256');
    expect(await tokens.check(await forge({ key: privateKey }))).toBeUndefined();
  });

  test('signed with HS256 and our public key as secret are rejected', async () => {
    const [published] = await keys.verifying();
    const publicKey = createPublicKey({ key: { ...published?.publicJwk }, format: 'jwk' });
    const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
    const key = new TextEncoder().encode(pem);
    expect(await tokens.check(await forge({ header: { alg: 'HS256' }, key }))).toBeUndefined();
  });

  test('with alg none, and texts that are not tokens, are rejected', async () => {
    const [, body = ''] = (await issue(await newMember())).split('.');
    const kid = (await keys.signing()).kid;
    for (const alg of ['none', 'None', 'NONE']) {
      const head = Buffer.from(JSON.stringify({ alg, typ: 'at+jwt', kid })).toString('base64url');
      for (const tail of ['', 'x']) {
        expect(await tokens.check(`${head}.${body}.${tail}`)).toBeUndefined();
      }
    }
    for (const text of ['', '.', '..', 'x', 'x'.repeat(10_000), '{}']) {
      expect(await tokens.check(text)).toBeUndefined();
    }
  });
});

describe('signing keys', () => {
  test('are created once by replicas that start at the same time', async () => {
    const empty = await createTestDatabase('gateway');
    const replicas = Array.from({ length: 4 }, () => createOAuthKeys(empty.pool, keyring));
    const kids = await Promise.all(replicas.map(async (replica) => (await replica.signing()).kid));
    await empty.drop();
    expect(new Set(kids).size).toBe(1);
  });

  test('can be replaced: old and new tokens are valid on every replica', async () => {
    const member = await newMember();
    const before = await issue(member);
    await rotateOAuthKey(db.pool);
    // `keys` has cached the old key, and `restarted` has not.
    const restarted = createOAuthKeys(db.pool, keyring);
    const { kid } = await restarted.signing();
    const after = await issueAccessToken(db.pool, restarted, {
      issuer: ISSUER,
      clientId: 'client',
      ...member,
    });
    expect(JSON.parse(Buffer.from(after.split('.')[0] ?? '', 'base64url').toString()).kid).toBe(
      kid,
    );
    for (const check of [checkWith(restarted), checkWith(createOAuthKeys(db.pool, keyring))]) {
      expect(await check.check(before)).toBeDefined();
      expect(await check.check(after)).toBeDefined();
    }
    expect((await restarted.verifying()).map((key) => key.kid)).toContain(kid);
  });

  test('do not verify tokens 14 hours after they were replaced', async () => {
    const token = await issue(await newMember());
    await rotateOAuthKey(db.pool);
    await db.pool.query(
      "update oauth_keys set replaced_at = now() - interval '14 hours' where replaced_at is not null",
    );
    expect(await checkWith(createOAuthKeys(db.pool, keyring)).check(token)).toBeUndefined();
  });

  test('are stored encrypted', async () => {
    const { privateJwk } = await keys.signing();
    const { rows } = await db.pool.query('select oauth_keys::text as text from oauth_keys');
    expect(rows.length).toBeGreaterThan(0);
    for (const { text } of rows) expect(text).not.toContain(String(privateJwk.d));
  });
});
