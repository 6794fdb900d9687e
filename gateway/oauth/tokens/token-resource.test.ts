import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { Browser } from '../../../test/kit/oauth/browser.ts';
import {
  CLIENT_ID,
  type Person,
  REDIRECT,
  type SignInStack,
  startSignInStack,
  type TokenResponse,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { listGrants } from '../../tenancy/grants.ts';
import { mcpResource, namesMcp } from './issue.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack();
});
afterAll(() => stack.stop());

describe('a token request', () => {
  let person: Person;
  beforeAll(async () => {
    person = await stack.newPerson();
  });

  /** The fields with which a client redeems the code of a new sign-in. */
  async function redemption(): Promise<Record<string, string>> {
    const begun = stack.begin();
    const { url } = await stack.signIn(person, { begun });
    return {
      grant_type: 'authorization_code',
      code: url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: begun.verifier,
    };
  }
  const refresh = (token: unknown, more: Record<string, string> = {}, replica = 0) =>
    stack.token({ grant_type: 'refresh_token', refresh_token: String(token), ...more }, replica);

  describe('the resource of a token request', () => {
    test.each(['/mcp', '/mcp/', '', '/'])('may be {base_url}%s', async (path) => {
      const resource = `${stack.baseUrl}${path}`.replace('http:', 'HTTP:');
      const { status, body } = await stack.token({ ...(await redemption()), resource });
      const aud = mcpResource(stack.baseUrl);
      expect([status, decodeJwt(String(body.access_token)).aud]).toEqual([200, aud]);
      const fresh = await refresh(body.refresh_token, { resource });
      expect([fresh.status, decodeJwt(String(fresh.body.access_token)).aud]).toEqual([200, aud]);
    });

    test('and scopes of other servers beside ours are ignored at a refresh', async () => {
      const { body } = await stack.token(await redemption());
      const fresh = await refresh(body.refresh_token, { scope: 'mcp offline_access' });
      expect([fresh.status, fresh.body.scope]).toEqual([200, 'mcp']);
      const other = await refresh(fresh.body.refresh_token, { scope: 'openid' });
      expect(other).toMatchObject({ status: 400, body: { error: 'invalid_scope' } });
    });

    test('that is another one uses up neither a code nor a refresh token', async () => {
      const fields = await redemption();
      const resource = 'https://evil.example/mcp';
      const rejected = { status: 400, body: { error: 'invalid_target' } };
      expect(await stack.token({ ...fields, resource })).toMatchObject(rejected);
      const { status, body } = await stack.token(fields);
      expect(status).toBe(200);
      expect(await refresh(body.refresh_token, { resource })).toMatchObject(rejected);
      expect((await refresh(body.refresh_token)).status).toBe(200);
    });

    test.each([
      ['https://returns.example.com', true],
      ['https://returns.example.com/mcp/', true],
      ['HTTPS://Returns.EXAMPLE.com:443/mcp', true],
      ['https://returns.example.com/MCP', false],
      ['https://returns.example.com/mcp/x', false],
      ['https://returns.example.com/mcp?x=1', false],
      ['https://returns.example.com/mcp#', false],
      ['https://returns.example.com:8443/mcp', false],
      ['https://user@returns.example.com/mcp', false],
      ['https://returns.example.com.evil.example/mcp', false],
      ['http://returns.example.com/mcp', false],
      ['returns.example.com/mcp', false],
      ['', false],
    ])('%s: %s', (resource, isOurs) => {
      expect(namesMcp('https://returns.example.com', resource)).toBe(isOurs);
    });
  });

  describe('the Authorization header of a token request', () => {
    const requestWith = async (authorization: string, fields: Record<string, string>) => {
      const response = await fetch(`${stack.baseUrl}/oauth/token`, {
        method: 'POST',
        headers: { authorization },
        body: new URLSearchParams(fields),
      });
      const body = (await response.json()) as { error?: string };
      return [response.status, body.error];
    };
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

    test.each([
      ['a client id with an empty secret', basic(`${CLIENT_ID}:`), {}],
      ['an encoded client id', basic(`${CLIENT_ID.replace('-', '%2D')}:`), {}],
      ['the client id of the form', basic(`${CLIENT_ID}:`), { client_id: CLIENT_ID }],
      ['an access token', 'bearer an.old.token', { client_id: CLIENT_ID }],
    ])('may be %s', async (_, authorization, fields) => {
      const sent = { ...(await redemption()), ...fields };
      expect(await requestWith(authorization, sent)).toEqual([200, undefined]);
    });

    test('is rejected with a secret, which no client has', async () => {
      const fields = await redemption();
      const rejected = await requestWith(basic(`${CLIENT_ID}:guess`), fields);
      expect(rejected).toEqual([401, 'invalid_client']);
      expect((await stack.token(fields)).status).toBe(200);
    });
  });

  test('eight refreshes at once leave one grant, and tokens that are not continued end it later', async () => {
    const { body } = await stack.token(await redemption());
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, at) => refresh(body.refresh_token, {}, at % 2)),
    );
    expect(all.map(({ status }) => status)).toEqual(new Array(8).fill(200));
    const grants = all.map((one) => decodeJwt(String(one.body.access_token)).grant_id);
    expect(new Set(grants).size).toBe(1);
    const [first, second] = all.map((one) => one.body.refresh_token);
    const next = await refresh(first);
    const { pool } = stack.under.database;
    await pool.query("update oauth_tickets set consumed_at = consumed_at - interval '31 s'");
    expect((await refresh(next.body.refresh_token)).status).toBe(200);
    expect((await refresh(second)).body).toMatchObject({ error: 'invalid_grant' });
  });
});

describe('the life of tokens', () => {
  const DAY_S = 24 * 3_600;
  const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } };

  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({ replicas: 1 });
  });
  afterAll(() => stack.stop());

  /** Makes every code and refresh token expire this number of seconds earlier. */
  const shorten = (seconds: number): Promise<unknown> =>
    stack.under.database.pool.query(
      "update oauth_tickets set expires_at = expires_at - $1 * interval '1 second'",
      [seconds],
    );

  const refresh = (token: unknown): Promise<TokenResponse> =>
    stack.token({ grant_type: 'refresh_token', refresh_token: String(token) });

  test('a code is valid for a minute', async () => {
    const begun = stack.begin();
    const { url } = await stack.signIn(await stack.newPerson(), { begun });
    await shorten(60);
    const response = await stack.token({
      grant_type: 'authorization_code',
      code: url.searchParams.get('code') ?? '',
      redirect_uri: REDIRECT,
      code_verifier: begun.verifier,
    });
    expect(response).toMatchObject(INVALID_GRANT);
  });

  test('a refresh token is valid for 30 days, and each use returns a new one with the same lifetime', async () => {
    const { body } = await stack.tokens(await stack.newPerson());
    // 256 random bits.
    expect(body.refresh_token).toMatch(/^[\w-]{43}$/);
    await shorten(29 * DAY_S);
    const used = await refresh(body.refresh_token);
    await shorten(29 * DAY_S);
    const last = await refresh(used.body.refresh_token);
    expect([used.status, last.status]).toEqual([200, 200]);
    await shorten(30 * DAY_S);
    expect(await refresh(last.body.refresh_token)).toMatchObject(INVALID_GRANT);
  });
});

describe('an assistant that may only read', () => {
  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({ replicas: 1 });
  });
  afterAll(() => stack.stop());

  /** For each grant of the person, oldest first: whether it may only read. */
  async function accessOf({ email }: Person): Promise<boolean[]> {
    const grants = await listGrants(stack.under.database.pool);
    return grants.filter((one) => one.email === email).map(({ isReadOnly }) => isReadOnly);
  }

  /** The names of the tools that the client with this token gets. */
  async function toolsOf(token: unknown): Promise<string[]> {
    const response = await fetch(`${stack.baseUrl}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    const { result } = (await response.json()) as { result: { tools: { name: string }[] } };
    return result.tools.map(({ name }) => name);
  }

  describe('the consent page', () => {
    test('lists the rights of the role in groups, and offers reading only', async () => {
      const person = await stack.newPerson({ role: 'developer' });
      const { text } = await stack.signIn(person, { stopsAtConsent: true });
      const rights = [...text.matchAll(/<li><strong>(.*?):<\/strong> (.*?)<\/li>/g)];
      expect(rights.map(([, group]) => group)).toEqual(['Returns', 'Webhooks']);
      expect(rights[1]?.[2]).toMatch(/^see webhook subscriptions[^;]*; .*webhook/);
      expect(text).toContain('<dd>Developer</dd>');
      expect(text).toMatch(/name="access" value="everything" checked/);
      expect(text).toMatch(/name="access" value="read_only">/);
    });
  });

  describe('the consent form', () => {
    test.each([
      'consent=allow&access=read-only',
      'consent=allow&access=',
      'consent=allow&access=read_only&access=everything',
      'consent=yes&access=read_only',
      'access=everything',
    ])('with %s allows nothing, and the page can be sent again', async (fields) => {
      const person = await stack.newPerson();
      const browser = new Browser();
      const { text, url } = await stack.signIn(person, { browser, stopsAtConsent: true });
      const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';
      const allow = new URL(url.pathname.replace(/consent$/, 'allow'), url);
      const post = (body: string) =>
        browser.send(allow, {
          method: 'POST',
          body: new URLSearchParams(`${body}&csrf=${csrf}`),
        });
      const rejected = await post(fields);
      expect([rejected.status, rejected.text]).toEqual([
        400,
        expect.stringContaining('so nothing was allowed'),
      ]);
      expect(await accessOf(person)).toEqual([]);
      await post('consent=allow&access=read_only');
      expect(await accessOf(person)).toEqual([true]);
    });
  });

  describe('reading only', () => {
    test('gives tokens for tools that only read, also after a refresh', async () => {
      const { body } = await stack.tokens(await stack.newPerson(), { access: 'read_only' });
      expect(await toolsOf(body.access_token)).toContain('search_returns');
      const { body: fresh } = await stack.token({
        grant_type: 'refresh_token',
        refresh_token: String(body.refresh_token),
      });
      for (const token of [body.access_token, fresh.access_token]) {
        expect(await toolsOf(token)).not.toContain('process_return');
      }
    });

    test('is remembered with the consent, until the user chooses everything', async () => {
      const person = await stack.newPerson();
      await stack.tokens(person, { access: 'read_only' });
      await stack.tokens(person);
      expect(await accessOf(person)).toEqual([true, true]);
      await stack.tokens(person, { begun: stack.begin({ prompt: 'consent' }) });
      await stack.tokens(person);
      expect(await accessOf(person)).toEqual([true, true, false, false]);
    });

    test('is in the audit log', async () => {
      const person = await stack.newPerson();
      await stack.tokens(person, { access: 'read_only' });
      const { rows } = await stack.under.database.pool.query(
        `select detail->>'access' as access from audit_log
        where action = 'assistant.connected' and actor_id = $1`,
        [String(person.userId)],
      );
      expect(rows).toEqual([{ access: 'read_only' }]);
    });
  });
});

/** @param replica the gateway to send the request to. */
async function revoke(fields: Record<string, string> | URLSearchParams, replica = 0) {
  const response = await fetch(`${stack.replicas[replica]}/oauth/revoke`, {
    method: 'POST',
    body: new URLSearchParams(fields),
  });
  const text = await response.text();
  return { status: response.status, text, headers: response.headers };
}

describe('/oauth/revoke', () => {
  const CLAUDE = 'https://claude.ai/oauth/mcp-oauth-client-metadata';

  const client_id = 'rms-mcp';
  const refresh = (token: string, replica = 0) =>
    stack.token({ grant_type: 'refresh_token', refresh_token: token }, replica);
  const call = async (token: string, replica = 0) => {
    const response = await fetch(`${stack.replicas[replica]}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    return response.status;
  };

  async function connected(): Promise<{
    person: Person;
    access_token: string;
    refresh_token: string;
  }> {
    const person = await stack.newPerson();
    const { body } = await stack.tokens(person);
    return {
      person,
      access_token: String(body.access_token),
      refresh_token: String(body.refresh_token),
    };
  }

  test.each(['access_token', 'refresh_token'] as const)(
    'ends the grant by its %s, on every replica',
    async (kind) => {
      const tokens = await connected();
      const other = await connected();
      const { status, text, headers } = await revoke({ token: tokens[kind], client_id }, 1);
      expect({ status, text }).toEqual({ status: 200, text: '' });
      expect(headers.get('cache-control')).toBe('no-store');
      for (const replica of [0, 1]) {
        expect(await call(tokens.access_token, replica)).toBe(401);
        expect(await refresh(tokens.refresh_token, replica)).toMatchObject({
          status: 400,
          body: { error: 'invalid_grant' },
        });
      }
      expect(await call(other.access_token)).toBe(200);
      // A second revocation is accepted too.
      expect((await revoke({ token: tokens[kind], client_id })).status).toBe(200);
    },
  );

  test('ends the grant also by a refresh token that was already used', async () => {
    const { access_token, refresh_token } = await connected();
    const { body } = await refresh(refresh_token);
    expect((await revoke({ token: refresh_token, client_id })).status).toBe(200);
    expect([await call(access_token), await call(String(body.access_token))]).toEqual([401, 401]);
  });

  test('writes one audit entry, with the user as actor', async () => {
    const { person, access_token } = await connected();
    for (const _ of [1, 2]) await revoke({ token: access_token, client_id });
    const { rows } = await stack.under.database.pool.query(
      `select actor_kind, source, request_id, detail->>'why' as why from audit_log
        where action = 'assistant.disconnected' and actor_id = $1`,
      [String(person.userId)],
    );
    expect(rows).toEqual([
      {
        actor_kind: 'user',
        source: '127.0.0.1',
        request_id: expect.any(String),
        why: 'token_revoked',
      },
    ]);
  });

  test('makes the next sign-in ask for consent again', async () => {
    const { person, access_token } = await connected();
    const page = await stack.signIn(person, { stopsAtConsent: true });
    expect(page.text).not.toContain('name="consent"');
    await revoke({ token: access_token, client_id });
    const again = await stack.signIn(person, { stopsAtConsent: true });
    expect(again.text).toContain('name="consent"');
  });

  test.each([
    ['made up', 'x'.repeat(43)],
    ['a token without signature', 'eyJhbGciOiJub25lIn0.e30.'],
    ['very long', 'x'.repeat(7_000)],
  ])('returns 200 for a text that is not our token: %s', async (_, token) => {
    for (const hint of [{}, { token_type_hint: 'access_token' }, { token_type_hint: 'x' }]) {
      expect((await revoke({ token, client_id, ...hint })).status).toBe(200);
    }
  });

  test('accepts a request without client id, and rejects another client id', async () => {
    const { access_token } = await connected();
    const other = await revoke({ token: access_token, client_id: CLAUDE });
    expect([other.status, JSON.parse(other.text)]).toMatchObject([
      400,
      { error: 'unauthorized_client' },
    ]);
    const unknown = await revoke({ token: access_token, client_id: 'nobody' });
    expect([unknown.status, JSON.parse(unknown.text)]).toMatchObject([
      401,
      { error: 'invalid_client' },
    ]);
    expect(await call(access_token)).toBe(200);
    expect((await revoke({ token: access_token })).status).toBe(200);
    expect(await call(access_token)).toBe(401);
  });

  test('requires exactly one token, in an urlencoded body', async () => {
    const twice = new URLSearchParams([
      ['token', 'a'],
      ['token', 'b'],
    ]);
    for (const fields of [{ client_id }, { client_id, token: '' }, twice]) {
      const { status, text } = await revoke(fields);
      expect([status, JSON.parse(text).error]).toEqual([400, 'invalid_request']);
    }
    const json = await fetch(`${stack.baseUrl}/oauth/revoke`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"token":"x"}',
    });
    expect(json.status).toBe(400);
    expect((await revoke({ token: 'x'.repeat(9_000) })).status).toBe(413);
    expect((await fetch(`${stack.baseUrl}/oauth/revoke`)).status).toBe(405);
  });
});

test('has its own rate limit', async () => {
  const small = await startSignInStack({ replicas: 1, REVOKE_PER_HOUR: 2 });
  const request = () =>
    fetch(`${small.baseUrl}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token: 'x' }),
    });
  const statuses = [(await request()).status, (await request()).status, (await request()).status];
  const token = await small.token({ grant_type: 'refresh_token', refresh_token: 'x' });
  await small.stop();
  expect([...statuses, token.status]).toEqual([200, 200, 429, 400]);
});
