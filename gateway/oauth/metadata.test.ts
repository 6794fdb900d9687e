import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as oidc from 'openid-client';
import { discovery, None } from 'openid-client';
import { newKeyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { startTestGateway, TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import {
  CLIENT_ID,
  REDIRECT,
  type SignInStack,
  startSignInStack,
  type TokenResponse,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { addMember, removeMember } from '../tenancy/members.ts';

describe('the authorization server', () => {
  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({ replicas: 1 });
  });
  afterAll(() => stack.stop());

  const request = (path: string, init?: RequestInit) => fetch(`${stack.baseUrl}${path}`, init);

  describe('metadata', () => {
    test.each(['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'])(
      '%s describes the authorization server',
      async (path) => {
        const response = await request(path);
        expect(response.headers.get('content-type')).toContain('application/json');
        expect(await response.json()).toMatchObject({
          issuer: stack.baseUrl,
          authorization_endpoint: `${stack.baseUrl}/oauth/authorize`,
          token_endpoint: `${stack.baseUrl}/oauth/token`,
          registration_endpoint: `${stack.baseUrl}/oauth/register`,
          revocation_endpoint: `${stack.baseUrl}/oauth/revoke`,
          revocation_endpoint_auth_methods_supported: ['none'],
          scopes_supported: ['mcp'],
          response_types_supported: ['code'],
          grant_types_supported: ['authorization_code', 'refresh_token'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none'],
          authorization_response_iss_parameter_supported: true,
          client_id_metadata_document_supported: true,
        });
      },
    );

    test.each([
      ['has a metadata document', 'https://app.example/client.json', true],
      ['has none', undefined, false],
    ] as const)(
      'says whether a supported client has a metadata document: one that %s',
      async (_, clientId, isSupported) => {
        const MCP_CLIENTS = [{ name: 'App', clientId, redirectUris: [REDIRECT] }];
        const one = await startTestGateway({ MCP_CLIENTS });
        const response = await fetch(
          `http://127.0.0.1:${one.gateway.port}/.well-known/oauth-authorization-server`,
        );
        await one.stop();
        expect(await response.json()).toMatchObject({
          client_id_metadata_document_supported: isSupported,
        });
      },
    );

    test.each([
      '/.well-known/oauth-protected-resource',
      '/.well-known/oauth-protected-resource/mcp',
    ])('%s describes the MCP server', async (path) => {
      expect(await (await request(path)).json()).toMatchObject({
        resource: `${stack.baseUrl}/mcp`,
        authorization_servers: [stack.baseUrl],
        scopes_supported: ['mcp'],
        bearer_methods_supported: ['header'],
      });
    });

    test.each(['oauth2', 'oidc'] as const)(
      'is found by the discovery of a client (%s)',
      async (algorithm) => {
        const found = await discovery(new URL(stack.baseUrl), 'rms-mcp', undefined, None(), {
          algorithm,
          execute: [oidc.allowInsecureRequests],
        });
        expect(found.serverMetadata().supportsPKCE()).toBe(true);
      },
    );

    test('can be read by scripts of any origin, as can registration and tokens', async () => {
      const open = [
        ['/.well-known/oauth-authorization-server', 'GET'],
        ['/.well-known/openid-configuration', 'GET'],
        ['/.well-known/oauth-protected-resource', 'GET'],
        ['/.well-known/oauth-protected-resource/mcp', 'GET'],
        ['/oauth/register', 'POST'],
        ['/oauth/token', 'POST'],
        ['/oauth/revoke', 'POST'],
      ] as const;
      for (const [path, method] of open) {
        const headers = {
          origin: 'https://inspector.example',
          'access-control-request-method': method,
        };
        const preflight = await request(path, { method: 'OPTIONS', headers });
        expect([path, preflight.status]).toEqual([path, 204]);
        expect(preflight.headers.get('access-control-allow-methods')).toBe(method);
        const response = await request(path, {
          method,
          headers: { origin: 'https://inspector.example' },
        });
        for (const { headers: received } of [preflight, response]) {
          expect([path, received.get('access-control-allow-origin')]).toEqual([path, '*']);
          expect(received.get('access-control-allow-credentials')).toBeNull();
        }
      }
    });

    test('forbids caching of responses under /oauth', async () => {
      const paths = ['/oauth/authorize', '/oauth/callback', '/oauth/jwks', '/oauth/authorize/x'];
      for (const path of paths) {
        expect([path, (await request(path)).headers.get('cache-control')]).toEqual([
          path,
          'no-store',
        ]);
      }
      for (const path of ['/oauth/register', '/oauth/token']) {
        const { headers } = await request(path, { method: 'POST' });
        expect([path, headers.get('cache-control')]).toEqual([path, 'no-store']);
      }
    });

    test('publishes public keys only', async () => {
      const response = (await (await request('/oauth/jwks')).json()) as {
        keys: Record<string, unknown>[];
      };
      expect(response.keys.length).toBeGreaterThan(0);
      for (const key of response.keys) {
        expect(key).toMatchObject({ kty: 'EC', alg: 'ES256', use: 'sig', kid: expect.any(String) });
        expect(key).not.toHaveProperty('d');
      }
    });
  });

  describe('/oauth/register', () => {
    const register = async (body?: unknown) => {
      const response = await request('/oauth/register', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const hint = response.headers.get('x-service-hint');
      const metadata = (await response.json()) as Record<string, unknown>;
      return { status: response.status, body: metadata, hint };
    };
    const common = {
      client_id: 'rms-mcp',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    };

    test('returns the pre-configured client, with the listed redirect URIs of the request', async () => {
      const listed = 'http://127.0.0.1:51234/callback';
      const redirect_uris = ['https://evil.example/callback', listed, REDIRECT, 7];
      const { status, body, hint } = await register({ client_name: 'x', redirect_uris });
      expect([status, hint]).toEqual([201, null]);
      expect(body).toMatchObject({ ...common, redirect_uris: [listed, REDIRECT] });
      expect(body).not.toHaveProperty('client_secret');
    });

    test.each([
      [
        'no listed redirect URI',
        { redirect_uris: ['https://evil.example/callback'] },
        expect.stringMatching(/^none of these redirect_uris is supported: .*MCP_CLIENTS$/),
      ],
      ['an empty list', { redirect_uris: [] }, null],
      ['no list', {}, null],
      ['something else', { redirect_uris: 'x' }, null],
      ['no body', undefined, null],
    ])('with %s returns the whole list', async (_, metadata, expected) => {
      const { status, body, hint } = await register(metadata);
      expect([status, hint]).toEqual([201, expected]);
      expect(body).toMatchObject({ ...common, redirect_uris: expect.arrayContaining([REDIRECT]) });
    });

    test.each(['null', '[]', '"x"', '7', '{', 'redirect_uris=x', ' '])(
      'rejects a body that is not a JSON object: %j',
      async (text) => {
        const { status, body } = await register(text);
        expect([status, body.error]).toEqual([400, 'invalid_client_metadata']);
      },
    );

    test('does not add a redirect URI to the list', async () => {
      const uri = 'https://evil.example/callback';
      await register({ redirect_uris: [uri] });
      expect(
        (await fetch(stack.begin({ redirect_uri: uri }).url, { redirect: 'manual' })).status,
      ).toBe(400);
    });

    test('rejects a body above 64 KiB', async () => {
      expect((await register({ client_name: 'x'.repeat(70_000) })).status).toBe(413);
    });
  });
});

describe('the audit log', () => {
  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({ OAUTH_KEYRING: parseKeyring(newKeyringText()), replicas: 1 });
  });
  afterAll(() => stack?.stop());

  const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } };
  const refresh = (token: unknown): Promise<TokenResponse> =>
    stack.token({ grant_type: 'refresh_token', refresh_token: String(token) });
  /** Moves the first use of every code and refresh token into the past. */
  const ageUses = (seconds: number): Promise<unknown> =>
    stack.under.database.pool.query(
      "update oauth_tickets set consumed_at = consumed_at - $1 * interval '1 second'",
      [seconds],
    );

  const entriesOf = async (userId: bigint) => {
    const { rows } = await stack.under.database.pool.query<{ subject: string }>(
      `select action, subject, actor_kind, actor_id, source, request_id, detail from audit_log
        where action like 'assistant.%' and (actor_id = $1 or detail->>'user_id' = $1) order by id`,
      [String(userId)],
    );
    return rows;
  };

  test('shows who connected an assistant, and that the reuse of its token ended the grant', async () => {
    const person = await stack.newPerson();
    const userId = String(person.userId);
    const { body } = await stack.tokens(person);
    const connected = {
      action: 'assistant.connected',
      actor_kind: 'user',
      actor_id: userId,
      source: '127.0.0.1',
      request_id: expect.any(String),
      detail: { client_id: CLIENT_ID, app: 'claude.ai', consent: 'given' },
    };
    const [first, ...more] = await entriesOf(person.userId);
    expect(first).toMatchObject(connected);
    expect(more).toEqual([]);
    await refresh(body.refresh_token);
    await ageUses(31);
    for (const _ of [1, 2]) expect(await refresh(body.refresh_token)).toMatchObject(INVALID_GRANT);
    const why = 'token_reused';
    expect(await entriesOf(person.userId)).toMatchObject([
      connected,
      {
        action: 'assistant.disconnected',
        subject: first?.subject,
        actor_kind: 'service',
        actor_id: 'gateway',
        detail: { user_id: userId, client_id: CLIENT_ID, app: 'claude.ai', why },
      },
    ]);
  });

  test('shows that an assistant was disconnected when the membership of its user ended', async () => {
    const person = await stack.newPerson();
    await stack.tokens(person);
    const { pool } = stack.under.database;
    const [shopId = 0n] = person.shopIds;
    await addMember(pool, { shopId, email: 'keeps@example.com', role: 'owner', by: TEST_AUTHOR });
    await removeMember(pool, { shopId, email: person.email, by: TEST_AUTHOR });
    expect((await entriesOf(person.userId)).at(-1)).toMatchObject({
      action: 'assistant.disconnected',
      detail: { why: 'member_removed' },
    });
  });
});

describe('the reservation of bodies', () => {
  let stack: SignInStack;
  beforeAll(async () => {
    stack = await startSignInStack({ replicas: 1, bodyBudget: { caller: 2_000 } });
  });
  afterAll(() => stack.stop());

  test.each(['/oauth/register', '/oauth/token', '/oauth/sign-in/x', '/oauth/sign-in/x/allow'])(
    '%s charges bodies to the budget of the address',
    async (path) => {
      const post = (size: number) =>
        fetch(`${stack.baseUrl}${path}`, { method: 'POST', body: 'x'.repeat(size) });
      const rejected = await post(2_001);
      expect(rejected.status).toBe(429);
      expect(rejected.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(await rejected.json()).toMatchObject({ error: 'temporarily_unavailable', errors: {} });
      for (let nth = 0; nth < 3; nth += 1) expect((await post(1_500)).status).toBeLessThan(429);
    },
  );
});
