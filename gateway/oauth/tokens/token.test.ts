import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import {
  CLIENT_ID,
  REDIRECT,
  type SignInStack,
  startSignInStack,
  type TokenResponse,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { until } from '../../../test/kit/until.ts';
import { RACE_MS } from '../adapter.ts';
import { KNOWN_CLIENTS } from '../clients/known-clients.ts';
import { createSupportedClients } from '../clients/supported-clients.ts';
import { createOneTimeRecords } from '../sign-in/one-time-records.ts';
import { type AccessTokenCheck, createAccessTokenCheck } from './access-token.ts';
import { mcpResource, storeGrant } from './issue.ts';
import { createOAuthKeys, rotateOAuthKey } from './keys.ts';

const keyring = parseKeyring(newKeyringText());
let stack: SignInStack;
let check: AccessTokenCheck;
beforeAll(async () => {
  stack = await startSignInStack({ OAUTH_KEYRING: keyring });
  const { pool } = stack.under.database;
  const keys = createOAuthKeys(pool, keyring);
  check = createAccessTokenCheck({
    pool,
    issuer: stack.baseUrl,
    resource: mcpResource(stack.baseUrl),
    keys,
    clients: createSupportedClients(CLIENT_ID, KNOWN_CLIENTS),
  });
});
afterAll(() => stack.stop());

const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } };
const works = async (token: unknown): Promise<boolean> =>
  (await check.check(String(token))) !== undefined;
const refresh = (token: unknown, replica = 0): Promise<TokenResponse> =>
  stack.token({ grant_type: 'refresh_token', refresh_token: String(token) }, replica);
/** Moves the first use of every code and refresh token into the past. */
const ageUses = (seconds: number): Promise<unknown> =>
  stack.under.database.pool.query(
    "update oauth_tickets set consumed_at = consumed_at - $1 * interval '1 second'",
    [seconds],
  );

/** The parameters with which a client redeems a code. */
const redemption = (code: string | null, code_verifier: string) => ({
  grant_type: 'authorization_code',
  code: code ?? '',
  redirect_uri: REDIRECT,
  code_verifier,
});

/** Stores a code as oidc-provider does, without a sign-in. */
async function newCode(): Promise<{
  code: string;
  exchange(replica?: number): Promise<TokenResponse>;
}> {
  const { userId, shopIds } = await person;
  const shopId = shopIds[0] ?? 0n;
  const [code, grantId, verifier] = [43, 43, 43].map(() => randomBytes(32).toString('base64url'));
  if (!code || !grantId || !verifier) throw new Error('no random text');
  const { pool } = stack.under.database;
  await storeGrant(pool, grantId, { userId, shopId, clientId: CLIENT_ID });
  const now = Math.floor(Date.now() / 1_000);
  const content = {
    kind: 'AuthorizationCode',
    iat: now,
    exp: now + 60,
    accountId: `${userId}.${shopId}`,
    clientId: CLIENT_ID,
    grantId,
    redirectUri: REDIRECT,
    resource: mcpResource(stack.baseUrl),
    scope: 'mcp',
    codeChallenge: createHash('sha256').update(verifier).digest('base64url'),
    codeChallengeMethod: 'S256',
  };
  await createOneTimeRecords(pool).put('AuthorizationCode', code, { content, ttlS: 60, grantId });
  return { code, exchange: (replica) => stack.token(redemption(code, verifier), replica) };
}

let person: ReturnType<SignInStack['newPerson']>;
beforeAll(() => {
  person = stack.newPerson();
});

describe('a code', () => {
  test('works once; reuse ends the grant and its tokens', async () => {
    const { code, begun, body } = await stack.tokens(await person);
    expect(await works(body.access_token)).toBe(true);
    await ageUses(2);
    const again = await stack.token(redemption(code, begun.verifier));
    expect(again).toMatchObject(INVALID_GRANT);
    expect(await works(body.access_token)).toBe(false);
    expect(await refresh(body.refresh_token)).toMatchObject(INVALID_GRANT);
  });

  test.each([
    ['long after its expiry', 3_600],
    ['after the clock of the database was set back', -3_600],
  ])('used again %s revokes its tokens', async (_what, seconds) => {
    const { exchange } = await newCode();
    const { body } = await exchange();
    await ageUses(seconds);
    expect(await exchange(1)).toMatchObject(INVALID_GRANT);
    expect(await works(body.access_token)).toBe(false);
  });

  test('redeemed by 16 concurrent requests on two replicas works exactly once, in 100 rounds', async () => {
    let roundsInTime = 0;
    for (let round = 0; round < 100; round += 1) {
      const { exchange } = await newCode();
      const began = performance.now();
      const responses = await Promise.all(Array.from({ length: 16 }, (_, at) => exchange(at % 2)));
      const isInTime = performance.now() - began < RACE_MS;
      const [accepted, ...others] = responses.filter(({ status }) => status === 200);
      expect([round, others.length]).toEqual([round, 0]);
      const rejected = responses.filter((response) => response !== accepted);
      // On an overloaded machine the database may be too slow for one request, which then gets 503.
      for (const { body } of rejected) {
        expect(['invalid_grant', 'temporarily_unavailable']).toContain(body.error);
      }
      expect(rejected.some(({ body }) => body.error === 'invalid_grant')).toBe(true);
      // On a slow machine a request may arrive so late that it counts as reuse, which revokes the tokens.
      if (!isInTime) continue;
      roundsInTime += 1;
      expect([round, await works(accepted?.body.access_token)]).toEqual([round, true]);
    }
    expect(roundsInTime).toBeGreaterThan(0);
  });

  const validRequest = async (): Promise<Record<string, string>> => {
    const begun = stack.begin();
    const { url } = await stack.signIn(await person, { begun });
    return redemption(url.searchParams.get('code'), begun.verifier);
  };

  test.each<[string, Record<string, string>, object]>([
    ['another verifier', { code_verifier: 'x'.repeat(43) }, INVALID_GRANT],
    ['the challenge as verifier', { code_verifier: 'CHALLENGE' }, INVALID_GRANT],
    ['no verifier', { code_verifier: '' }, INVALID_GRANT],
    [
      'another redirect URI',
      { redirect_uri: 'https://claude.com/api/mcp/auth_callback' },
      INVALID_GRANT,
    ],
    ['another client', { client_id: 'https://chatgpt.com/oauth/client.json' }, INVALID_GRANT],
    [
      'an unknown client',
      { client_id: 'nobody' },
      { status: 401, body: { error: 'invalid_client' } },
    ],
    ['another code', { code: 'x'.repeat(43) }, INVALID_GRANT],
    [
      'the resource of another server',
      { resource: 'https://evil.example/mcp' },
      { status: 400, body: { error: 'invalid_target' } },
    ],
    [
      'another grant type',
      { grant_type: 'password' },
      { status: 400, body: { error: 'unsupported_grant_type' } },
    ],
    ['the client credentials grant', { grant_type: 'client_credentials' }, { status: 400 }],
  ])('with %s gets no token', async (_, changes, expected) => {
    const fields = { ...(await validRequest()), ...changes };
    if (changes.code_verifier === 'CHALLENGE') {
      const verifier = String((await validRequest()).code_verifier);
      fields.code_verifier = createHash('sha256').update(verifier).digest('base64url');
    }
    const response = await stack.token(fields);
    expect(response).toMatchObject(expected);
    expect(response.body).not.toHaveProperty('access_token');
    expect(response.headers.get('cache-control')).toBe('no-store');
  });

  test('sent twice in one request is rejected', async () => {
    const fields = new URLSearchParams({ client_id: CLIENT_ID, ...(await validRequest()) });
    fields.append('code', 'x');
    const response = await fetch(`${stack.baseUrl}/oauth/token`, { method: 'POST', body: fields });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: 'invalid_request' },
    ]);
  });
});

describe('a refresh token', () => {
  test('returns a new one with every access token', async () => {
    const first = await stack.tokens(await person);
    const second = await refresh(first.body.refresh_token, 1);
    expect(second).toMatchObject({ status: 200, body: { scope: 'mcp', expires_in: 43_200 } });
    expect(second.body.refresh_token).not.toBe(first.body.refresh_token);
    expect(await works(second.body.access_token)).toBe(true);
    expect(await works(first.body.access_token)).toBe(true);
    expect((await refresh(second.body.refresh_token)).status).toBe(200);
  });

  test('works again within 30 seconds, for a client that lost the response', async () => {
    const { body } = await stack.tokens(await person);
    const lost = await refresh(body.refresh_token);
    await ageUses(25);
    const again = await refresh(body.refresh_token, 1);
    const next = await refresh(again.body.refresh_token);
    // Of the two returned tokens, the first one used stays valid. Using the other one later ends both.
    await ageUses(31);
    const last = await refresh(next.body.refresh_token, 1);
    expect([lost, again, next, last].map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(await refresh(lost.body.refresh_token)).toMatchObject(INVALID_GRANT);
    expect(await works(last.body.access_token)).toBe(false);
  });

  test('works for each of many concurrent requests within 30 seconds', async () => {
    const { body } = await stack.tokens(await person);
    const many = Array.from({ length: 16 }, (_, at) => refresh(body.refresh_token, at % 2));
    const responses = await Promise.all(many);
    const tokens = new Set(responses.map((response) => response.body.refresh_token));
    expect([responses.every(({ status }) => status === 200), tokens.size]).toEqual([true, 16]);
    for (const { body: each } of responses) expect(await works(each.access_token)).toBe(true);
  });

  test.each([
    ['reused after 30 seconds', 31],
    // The clock of the database was set back after the first use.
    ['first used in the future', -3_600],
  ])('%s ends the grant and its tokens', async (_what, seconds) => {
    const first = await stack.tokens(await person);
    const second = await refresh(first.body.refresh_token);
    await ageUses(seconds);
    expect(await refresh(first.body.refresh_token)).toMatchObject(INVALID_GRANT);
    expect(await refresh(second.body.refresh_token, 1)).toMatchObject(INVALID_GRANT);
    expect(await works(first.body.access_token)).toBe(false);
    expect(await works(second.body.access_token)).toBe(false);
  });

  test('ends with the membership', async () => {
    const other = await stack.newPerson();
    const { body } = await stack.tokens(other);
    const { pool } = stack.under.database;
    await pool.query('delete from memberships where user_id = $1', [other.userId]);
    expect(await refresh(body.refresh_token)).toMatchObject(INVALID_GRANT);
    expect(await works(body.access_token)).toBe(false);
  });

  test('of another client is rejected, and so is another kind of token', async () => {
    const { body, code } = await stack.tokens(await person);
    const client_id = 'https://chatgpt.com/oauth/client.json';
    const fields = { grant_type: 'refresh_token', refresh_token: String(body.refresh_token) };
    expect(await stack.token({ ...fields, client_id })).toMatchObject(INVALID_GRANT);
    expect(await refresh(code)).toMatchObject(INVALID_GRANT);
    expect(await refresh(body.access_token)).toMatchObject(INVALID_GRANT);
  });
});

test('each step of a sign-in may reach another replica', async () => {
  const begun = stack.begin();
  begun.url.port = new URL(stack.replicas[1] ?? '').port;
  const { url } = await stack.signIn(await person, { begun });
  const fields = redemption(url.searchParams.get('code'), begun.verifier);
  expect((await stack.token(fields, 1)).status).toBe(200);
});

test('old tokens stay valid when the signing key is replaced', async () => {
  const before = await stack.tokens(await person);
  await rotateOAuthKey(stack.under.database.pool);
  const kidOf = (token: unknown): unknown =>
    JSON.parse(Buffer.from(String(token).split('.')[0] ?? '', 'base64url').toString()).kid;
  const used = new Set<unknown>();
  let last = before;
  await until(async () => {
    last = { ...last, ...(await refresh(last.body.refresh_token)) };
    expect(last.status).toBe(200);
    used.add(kidOf(last.body.access_token)).add(kidOf(before.body.access_token));
    return used.size === 2;
  });
  expect(await works(before.body.access_token)).toBe(true);
  expect(await works(last.body.access_token)).toBe(true);
});

test('the stored rows contain no code, token or session', async () => {
  const { code, body } = await stack.tokens(await person);
  const { body: next } = await refresh(body.refresh_token);
  const { pool } = stack.under.database;
  const dumps = await Promise.all(
    ['oauth_tickets', 'oauth_grants', 'oauth_keys'].map((table) =>
      pool.query<{ text: string }>(`select ${table}::text as text from ${table}`),
    ),
  );
  const stored = dumps.flatMap(({ rows }) => rows.map(({ text }) => text)).join('\n');
  const { email } = await person;
  for (const secret of [code, body.refresh_token, next.refresh_token, body.access_token, email]) {
    expect(stored).not.toContain(String(secret));
    expect(stored).not.toContain(Buffer.from(String(secret)).toString('hex'));
  }
});
