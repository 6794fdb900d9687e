import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import {
  CLIENT_ID,
  type Person,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { mcpResource, namesMcp } from './issue.ts';

let stack: SignInStack;
let person: Person;
beforeAll(async () => {
  stack = await startSignInStack();
  person = await stack.newPerson();
});
afterAll(() => stack.stop());

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
