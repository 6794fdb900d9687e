import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as oauth from 'openid-client';
import { browse } from '../../deploy/local/identity/testing/browser.ts';
import { restClient } from '../kit/gateway/rest-client.ts';
import { admin } from '../kit/journeys/admin.ts';
import { signIn } from '../kit/mcp/assistant.ts';
import { startBrowser } from '../kit/mcp/browser.ts';
import { personOf, sharedStack, tokenOf } from '../kit/mcp/shared-stack.ts';
import type { OpenStack } from '../kit/stack.ts';

let stack: OpenStack;
beforeAll(async () => {
  stack = await sharedStack();
});
afterAll(() => stack?.control('POST', '/limits/reset'));

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

/** A plain request to the MCP server, with any credential. */
async function mcp(headers: Record<string, string>, query = '') {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await fetch(`${stack.file.mcp.url}${query}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(LIST),
    });
    const body: unknown = await answer.json();
    // On a busy machine the database may be late, which says nothing about the credential.
    if (answer.status === 503 && attempt < 5) continue;
    return { status: answer.status, challenge: answer.headers.get('www-authenticate'), body };
  }
}

const withBearer = (token: string) => mcp({ authorization: `Bearer ${token}` });

function rest(sent: { path: string; headers?: Record<string, string>; json?: unknown }) {
  const send = restClient({ gateway: { baseUrl: stack.file.base_url }, key: '' });
  return send({ key: null, ...sent });
}

const DETAILS = '/api/2026-10/warehouse/return/details?return_id=1';
const WEBHOOKS = '/api/2026-10/webhooks';

describe('each credential works for one interface only', () => {
  test('REST rejects the token of an assistant', async () => {
    const token = tokenOf(stack, 'owner', stack.shop.id);
    expect((await withBearer(token)).status).toBe(200);
    const authorization = `Bearer ${token}`;
    for (const path of [DETAILS, WEBHOOKS]) {
      for (const headers of [
        { authorization },
        { 'x-authorization': token },
        { 'x-authorization': authorization },
      ]) {
        expect(await rest({ path, headers })).toMatchObject({
          status: 401,
          body: { errors: 'Unauthorized.' },
        });
      }
    }
  });

  test("the MCP server rejects a partner's token, an API key, the service token and a code", async () => {
    const { file, shop } = stack;
    const others = [
      ...Object.values(shop.partner_tokens),
      shop.api_keys.all ?? '',
      file.grpc.token ?? '',
      file.control_token,
    ];
    const metadata = `${file.base_url}/.well-known/oauth-protected-resource`;
    for (const token of others) {
      const { status, challenge } = await withBearer(token);
      expect(status).toBe(401);
      expect(challenge).toContain(`resource_metadata="${metadata}`);
      expect(challenge).toContain('error="invalid_token"');
      expect(challenge).toContain('scope="mcp"');
    }
    const asKey = await mcp({ 'x-authorization': shop.api_keys.all ?? '' });
    expect(asKey.status).toBe(401);
    expect(asKey.challenge).not.toContain('error=');
  });

  test('both interfaces reject the tokens of the identity provider', async () => {
    const { id_token = '', access_token } = await identityTokens();
    expect(id_token.split('.')).toHaveLength(3);
    for (const token of [id_token, access_token]) {
      expect((await withBearer(token)).status).toBe(401);
      const headers = { authorization: `Bearer ${token}` };
      expect((await rest({ path: WEBHOOKS, headers })).status).toBe(401);
    }
  });

  test('a token in the URL has no effect', async () => {
    const token = tokenOf(stack, 'owner', stack.shop.id);
    expect((await mcp({}, `?access_token=${token}`)).status).toBe(401);
    expect((await rest({ path: `${WEBHOOKS}?access_token=${token}` })).status).toBe(401);
  });

  test('a token with a changed shop is invalid', async () => {
    const [head = '', body = '', signature = ''] = tokenOf(stack, 'admin', stack.shop.id).split(
      '.',
    );
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>;
    const other = JSON.stringify({ ...claims, shop_id: String(stack.otherShop.id) });
    const forged = [head, Buffer.from(other).toString('base64url'), signature].join('.');
    expect((await withBearer(forged)).status).toBe(401);
  });
});

describe('the next call', () => {
  test('of a removed member is rejected, and so is an expired token', async () => {
    const { shop } = stack;
    expect((await withBearer(tokenOf(stack, 'removed', shop.id))).status).toBe(401);
    expect((await withBearer(tokenOf(stack, 'owner', `${shop.id}_expired`))).status).toBe(401);
  });

  test('uses the new role after a change', async () => {
    const { shop } = stack;
    const { email } = personOf(stack, 'returns_agent');
    const token = tokenOf(stack, 'returns_agent', shop.id);
    const names = async () => {
      const { body } = await withBearer(token);
      const { result } = body as { result: { tools: { name: string }[] } };
      return result.tools.map(({ name }) => name);
    };
    const as = (role: string) =>
      admin(stack, 'member', 'add', '--shop', String(shop.id), '--email', email, '--role', role);
    expect(await names()).toContain('process_return');
    await as('analyst');
    try {
      expect(await names()).not.toContain('process_return');
    } finally {
      await as('returns_agent');
    }
    expect(await names()).toContain('process_return');
  });
});

test('the log contains no token and no code', async () => {
  const path = process.env.TEST_STACK_LOG;
  if (!path) throw new Error('TEST_STACK_LOG is set by test/kit/jest/global-mcp-setup.ts');
  const browser = await startBrowser();
  const person = personOf(stack, 'owner');
  const session = await signIn({ stack, browser, person, revision: '2026-07-28', hinted: true });
  await session.client?.listTools();
  await session.client?.close();
  await browser.close();
  const { access_token = '', refresh_token = '' } = session.memory.stored ?? {};
  const log = await readFile(path, 'utf8');
  // The log contains the requests of this test, so the check above proves something.
  expect(log).toContain('tools/list');
  for (const secret of [access_token, refresh_token, person.password, person.email]) {
    expect(secret).not.toBe('');
    expect(log.includes(secret)).toBe(false);
  }
  for (const pattern of [/[?&]code=/, /[?&]state=/, /access_token/, /refresh_token/, /\beyJ/]) {
    expect(log).not.toMatch(pattern);
  }
}, 180_000);

/** The tokens that the gateway would get as a client of the identity provider. */
async function identityTokens() {
  const { auth_url, partner } = stack.file;
  const { email, password } = personOf(stack, 'owner');
  const app = await oauth.discovery(
    new URL(auth_url),
    partner.client_id ?? '',
    partner.client_secret,
    oauth.ClientSecretPost(partner.client_secret),
    { execute: [oauth.allowInsecureRequests] },
  );
  const redirect_uri = partner.redirect_uri ?? '';
  const verifier = oauth.randomPKCECodeVerifier();
  const start = oauth.buildAuthorizationUrl(app, {
    redirect_uri,
    scope: 'openid email labels:write',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  const { url } = await browse(start, { fields: { email, password }, until: redirect_uri });
  return oauth.authorizationCodeGrant(app, url, { pkceCodeVerifier: verifier });
}
