import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Browser } from '../../test/kit/oauth/browser.ts';
import {
  CLIENT_ID,
  REDIRECT,
  type SignInStack,
  startSignInStack,
} from '../../test/kit/oauth/sign-in-stack.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ replicas: 1 });
});
afterAll(() => stack.stop());

/** Spellings of the address of the MCP server, and the address of the service. */
const RESOURCES = ['BASE', 'BASE/', 'BASE/mcp', 'BASE/mcp/'];
const withBase = (changes: Record<string, string | undefined>) => ({
  ...changes,
  ...(changes.resource && { resource: changes.resource.replace('BASE', stack.baseUrl) }),
});

const open = (url: URL | string) => new Browser().send(url);

describe('a redirect URI that is not on the list gets a page, never a redirect', () => {
  test.each([
    'https://evil.example/callback',
    'https://claude.ai.evil.example/api/mcp/auth_callback',
    'https://evil.example/https://claude.ai/api/mcp/auth_callback',
    'https://claude.ai@evil.example/api/mcp/auth_callback',
    'https://claude.ai:443/api/mcp/auth_callback',
    'https://claude.ai:8443/api/mcp/auth_callback',
    'https://CLAUDE.ai/api/mcp/auth_callback',
    'https://claude.ai./api/mcp/auth_callback',
    'http://claude.ai/api/mcp/auth_callback',
    'https://claude.ai/api/mcp/auth_callback/',
    'https://claude.ai/api/mcp/auth_callback?next=https://evil.example',
    'https://claude.ai/api/mcp/auth_callback#x',
    'https://claude.ai/api/mcp/auth_callback%00.evil.example',
    'https://claude.ai/api/mcp/../mcp/auth_callback',
    'https://claude.ai/api/mcp/%61uth_callback',
    'https://claude.ai\\@evil.example/api/mcp/auth_callback',
    'https:claude.ai/api/mcp/auth_callback',
    '//claude.ai/api/mcp/auth_callback',
    ' https://claude.ai/api/mcp/auth_callback',
    'https://claude.ai/api/mcp/auth_callback\r\nSet-Cookie: x=y',
    'https://chatgpt.com/connector/oauth/a/b',
    'https://chatgpt.com/connector/oauth/..%2f..%2fevil',
    'https://chatgpt.com/connector/oauth/',
    'https://chatgpt.com/connector/oauth/{id}',
    'http://127.0.0.1:8080/evil',
    'http://127.0.0.1:99999/callback',
    'http://127.0.0.1:080/callback',
    'http://127.0.0.1:/callback',
    'http://user:password@127.0.0.1:1/callback',
    'http://127.1:8080/callback',
    'http://2130706433/callback',
    'http://0x7f.0.0.1/callback',
    'http://127.0.0.1.evil.example:8080/callback',
    'http://localhost.evil.example/callback',
    'https://127.0.0.1:8080/callback',
    'http://[::ffff:127.0.0.1]:8080/callback',
    'http://192.168.0.1:8080/callback',
    'cursor://evil/oauth/callback',
    'javascript:alert(document.domain)',
    'data:text/html,<script>alert(1)</script>',
    '/oauth/callback',
    'null',
    '',
  ])('%j', async (uri) => {
    const { status, headers, text } = await open(stack.begin({ redirect_uri: uri }).url);
    expect(status).toBe(400);
    expect(headers.get('location')).toBeNull();
    expect(headers.get('refresh')).toBeNull();
    expect(text).not.toMatch(/<script|http-equiv|<a /i);
    expect(text).toContain('in the setting MCP_CLIENTS');
    expect(text).toContain(`<li>${REDIRECT}</li>`);
  });

  test('a missing or repeated redirect URI, or an unknown client', async () => {
    const repeated = `${stack.begin().url}&redirect_uri=${encodeURIComponent(REDIRECT)}`;
    const responses = await Promise.all([
      open(stack.begin({ redirect_uri: undefined }).url),
      open(repeated),
      open(stack.begin({ client_id: undefined }).url),
      open(stack.begin({ client_id: 'nobody' }).url),
      open(stack.begin({ client_id: 'https://evil.example/client.json' }).url),
      open(`${stack.baseUrl}/oauth/authorize`),
    ]);
    for (const { status, headers } of responses) {
      expect([status, headers.get('location')]).toEqual([400, null]);
    }
    for (const { text } of responses.slice(2)) {
      expect(text).toContain('in the setting MCP_CLIENTS');
      expect(text).toContain(`<li>${CLIENT_ID}</li>`);
    }
  });
});

describe('parameters', () => {
  test.each([
    'client_id',
    'state',
    'scope',
    'code_challenge',
    'response_type',
    'login_hint',
    'other',
  ])('%s sent twice is rejected', async (name) => {
    const { url } = stack.begin({ [name]: name === 'client_id' ? CLIENT_ID : 'x' });
    const { status, headers } = await open(`${url}&${name}=x`);
    expect([status, headers.get('location')]).toEqual([400, null]);
  });

  const none = undefined;
  test.each<[string, Record<string, string | undefined>, string]>([
    ['no PKCE', { code_challenge: none, code_challenge_method: none }, 'invalid_request'],
    ['PKCE plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    [
      'PKCE without its method, which means plain',
      { code_challenge_method: none },
      'invalid_request',
    ],
    ['an invalid challenge', { code_challenge: 'short' }, 'invalid_request'],
    ['the resource of another server', { resource: 'https://evil.example/mcp' }, 'invalid_target'],
    ['another resource of ours', { resource: 'BASE/api' }, 'invalid_target'],
    ['a resource with a fragment', { resource: 'BASE/mcp#' }, 'invalid_target'],
    ['a resource that is not a URL', { resource: 'mcp' }, 'invalid_target'],
    ['another scope', { scope: 'developer_tools' }, 'invalid_scope'],
    ['response type token', { response_type: 'token' }, 'unsupported_response_type'],
    ['an id token', { response_type: 'code id_token' }, 'unsupported_response_type'],
    ['no response type', { response_type: none }, 'invalid_request'],
    ['response mode fragment', { response_mode: 'fragment' }, 'unsupported_response_mode'],
    ['response mode form_post', { response_mode: 'form_post' }, 'unsupported_response_mode'],
    ['prompt=none', { prompt: 'none' }, 'login_required'],
    ['a request object', { request: 'eyJhbGciOiJub25lIn0.e30.' }, 'request_not_supported'],
    ['a request URI', { request_uri: 'https://evil.example/r' }, 'request_uri_not_supported'],
  ])('%s is reported to the client, with state and issuer', async (_, changes, error) => {
    const parameters = withBase(changes);
    const { url, state } = stack.begin(parameters);
    const { status, headers } = await open(url);
    const location = headers.get('location') ?? '';
    expect([status, location.startsWith(`${REDIRECT}?`)]).toEqual([303, true]);
    const result = Object.fromEntries(new URL(location).searchParams);
    expect(result).toMatchObject({ error, state, iss: stack.baseUrl });
    expect(result).not.toHaveProperty('code');
  });

  test.each<[string, Record<string, string | undefined>]>([
    ['no other parameters', {}],
    ['the scope mcp', { scope: 'mcp' }],
    ['the scope mcp and scopes of other servers', { scope: 'openid mcp offline_access' }],
    ['an empty scope', { scope: '' }],
    ...RESOURCES.map((resource): [string, { resource: string }] => [
      `the resource ${resource}`,
      { resource },
    ]),
    ['prompt=consent', { prompt: 'consent' }],
    ['unknown parameters', { nonce: 'x', max_age: '0', audience: 'x', ui_locales: 'de' }],
  ])('a request with %s gets the form', async (_, changes) => {
    const { status, text, headers } = await open(stack.begin(withBase(changes)).url);
    expect([status, headers.get('location')]).toEqual([200, null]);
    expect(text).toContain('name="email"');
  });
});

describe('other methods', () => {
  test('get 405, and OPTIONS lists the allowed ones', async () => {
    const url = stack.begin().url.href;
    const post = await fetch(url, { method: 'POST', redirect: 'manual' });
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
    const options = await fetch(url, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS']);
    expect(options.headers.get('access-control-allow-origin')).toBeNull();
  });
});
