import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Person,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';

const CLAUDE = 'https://claude.ai/oauth/mcp-oauth-client-metadata';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack();
});
afterAll(() => stack.stop());

/** @param replica the gateway to send the request to. */
async function revoke(fields: Record<string, string> | URLSearchParams, replica = 0) {
  const response = await fetch(`${stack.replicas[replica]}/oauth/revoke`, {
    method: 'POST',
    body: new URLSearchParams(fields),
  });
  const text = await response.text();
  return { status: response.status, text, headers: response.headers };
}

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

describe('/oauth/revoke', () => {
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
