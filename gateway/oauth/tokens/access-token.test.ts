import { createPublicKey, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, generateKeyPair, importJWK, SignJWT } from 'jose';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { revokeGrant } from '../../tenancy/grants.ts';
import { addMember, removeMember } from '../../tenancy/members.ts';
import { KNOWN_CLIENTS } from '../clients/known-clients.ts';
import { createSupportedClients } from '../clients/supported-clients.ts';
import { type AccessTokenCheck, createAccessTokenCheck } from './access-token.ts';
import { createGrants } from './grants.ts';
import { type GrantFor, issueAccessToken, storeGrant } from './issue.ts';
import { createOAuthKeys, type OAuthKeys, rotateOAuthKey } from './keys.ts';

describe('the check of access tokens', () => {
  const ISSUER = 'https://returns.example.com';
  const RESOURCE = `${ISSUER}/mcp`;

  let db: TestDatabase;
  let keys: OAuthKeys;
  let tokens: AccessTokenCheck;
  const keyring = parseKeyring(newKeyringText());
  const clients = createSupportedClients('client', KNOWN_CLIENTS);
  const common = { issuer: ISSUER, resource: RESOURCE, clients };
  const checkWith = (other: OAuthKeys) =>
    createAccessTokenCheck({ ...common, pool: db.pool, keys: other });

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

  const issue = (o: {
    userId: bigint;
    shopId: bigint;
    ttlS?: number;
    clientId?: string;
  }): Promise<string> =>
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
      expect(
        await tokens.check(await issue({ ...(await newMember()), ttlS: -30 })),
      ).toBeUndefined();
    });

    test.each([
      ['client', 'claude.ai', 'ChatGPT', 'Claude'],
      ['client', 'cursor', 'Claude', 'Cursor'],
      ['client', '127.0.0.1:51234', 'Claude', 'Zed'],
      ['client', null, 'Claude', 'Claude'],
      ['https://zed.dev/oauth/client-metadata.json', '127.0.0.1:5', 'Claude Code', 'Zed'],
      ['https://zed.dev/oauth/client-metadata.json', null, 'Claude Code', 'Zed'],
    ])(
      'of the client %s and the app %s work while it is on the list',
      async (clientId, app, other, own) => {
        const member = await newMember();
        const token = await issue({ ...member, clientId });
        const { rows } = await db.pool.query(
          'update oauth_grants set app = $2 where user_id = $1 returning id',
          [member.userId, app],
        );
        const isAllowedBy = async (...names: string[]) => {
          const listed = KNOWN_CLIENTS.filter(({ name }) => names.includes(name));
          const these = {
            ...common,
            pool: db.pool,
            clients: createSupportedClients('client', listed),
          };
          const grants = createGrants({ ...these, logger: silentLogger(), mails: undefined });
          return [
            (await createAccessTokenCheck({ ...these, keys }).check(token)) !== undefined,
            (await grants.find(rows[0].id)) !== undefined,
          ];
        };
        const isOfAll = clientId === 'client' && app === null;
        expect(await isAllowedBy(other, own)).toEqual([true, true]);
        expect(await isAllowedBy(other)).toEqual([isOfAll, isOfAll]);
      },
    );

    test('are not accepted while the database is unavailable', async () => {
      const cut = await createTestDatabase('gateway');
      const withoutDatabase = createAccessTokenCheck({
        ...common,
        pool: cut.pool,
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
      const kids = await Promise.all(
        replicas.map(async (replica) => (await replica.signing()).kid),
      );
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
});

describe('storeGrant', () => {
  let gateway: TestGateway;
  let grant: GrantFor;
  beforeAll(async () => {
    gateway = await startTestGateway();
    const shopId = await gateway.newShop();
    const member = { shopId, email: 'ada@example.com', role: 'owner', by: TEST_AUTHOR } as const;
    const { userId } = await addMember(gateway.database.pool, member);
    grant = { shopId, userId, clientId: 'rms-mcp' };
  });
  afterAll(() => gateway.stop());

  test('returns true for exactly one of many concurrent callers', async () => {
    const { pool } = gateway.database;
    const clients = await Promise.all(Array.from({ length: 8 }, () => pool.connect()));
    const news: number[] = [];
    try {
      for (let round = 0; round < 300; round += 1) {
        const id = randomUUID();
        const stored = await Promise.all(clients.map((client) => storeGrant(client, id, grant)));
        news.push(stored.filter((isNew) => isNew).length);
      }
    } finally {
      for (const client of clients) client.release(true);
    }
    expect(new Set(news)).toEqual(new Set([1]));
  });

  test.each<[string, () => Promise<Partial<GrantFor>>]>([
    ['another shop', async () => ({ shopId: await gateway.newShop() })],
    ['another client', async () => ({ clientId: 'other' })],
  ])('rejects the id of a grant of %s', async (_, other) => {
    const { pool } = gateway.database;
    const id = randomUUID();
    await storeGrant(pool, id, grant);
    const changed = { ...grant, ...(await other()) };
    await expect(storeGrant(pool, id, changed)).rejects.toThrow('another grant has this id');
  });

  test('rejects the id of a revoked grant', async () => {
    const { pool } = gateway.database;
    const id = randomUUID();
    await storeGrant(pool, id, grant);
    await pool.query('update oauth_grants set revoked_at = now() where id = $1', [id]);
    await expect(storeGrant(pool, id, grant)).rejects.toThrow('another grant has this id');
  });

  test('stores two grants of one user and app, which can be ended concurrently without a deadlock', async () => {
    const { pool } = gateway.database;
    for (let round = 0; round < 30; round += 1) {
      const ids = [randomUUID(), randomUUID()];
      for (const id of ids) await storeGrant(pool, id, { ...grant, app: 'one', isConsented: true });
      await Promise.all(ids.map((id) => revokeGrant(pool, { id, by: TEST_AUTHOR })));
    }
    const active = `select from oauth_grants where app = 'one' and (revoked_at is null or consented_at is not null)`;
    expect((await pool.query(active)).rowCount).toBe(0);
  });
});
