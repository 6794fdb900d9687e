import { generateKeyPairSync } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt, SignJWT } from 'jose';
import { request } from 'undici';
import {
  type McpBench,
  PUBLIC_URL,
  type SignedInMember,
  startMcpBench,
} from '../../test/kit/gateway/mcp.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import { removeMember } from '../tenancy/members.ts';
import { TOOLS } from './tools.ts';

const ORIGIN = 'https://console.example.com';
const METADATA = `resource_metadata="${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"`;

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench({ MCP_ALLOWED_ORIGINS: [ORIGIN] });
  owner = await bench.member('owner');
});
afterAll(() => bench?.stop());

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

describe('the credential', () => {
  test.each(['POST', 'GET', 'DELETE', 'PUT', 'PATCH', 'OPTIONS', 'HEAD'])(
    '%s without a credential gets 401 with the address of the metadata',
    async (method) => {
      const response = await bench.post({ method, ...(method === 'POST' && { body: list }) });
      expect(response.status).toBe(401);
      expect(response.headers).toMatchObject({
        'www-authenticate': `Bearer ${METADATA}, scope="mcp"`,
        'cache-control': 'no-store',
      });
    },
  );

  const expectRejected = async (token: string) => {
    const response = await bench.post({ token, body: list });
    expect(response.status).toBe(401);
    const challenge = `Bearer ${METADATA}, scope="mcp", error="invalid_token"`;
    expect(response.headers['www-authenticate']).toBe(challenge);
  };

  test('is rejected when it is forged, expired or not a token', async () => {
    const [header, payload, signature] = owner.token.split('.');
    const claims = decodeJwt(owner.token);
    const other = Buffer.from(JSON.stringify({ ...claims, shop_id: '2' })).toString('base64url');
    const none = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url');
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const forged = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'unknown' })
      .sign(privateKey);
    const expired = await bench.tokenFor({ ...owner, ttlS: -60 });
    const invalid = [
      `${header}.${other}.${signature}`,
      `${header}.${payload}.${signature?.slice(0, -2)}AA`,
      `${none}.${payload}.`,
      ...[forged, expired, bench.key, 'x', 'a.b.c'],
    ];
    for (const token of invalid) await expectRejected(token);
  });

  test('is not accepted in the URL', async () => {
    const response = await request(`${bench.mcpUrl}?access_token=${owner.token}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(list),
    });
    await response.body.text();
    expect(response.statusCode).toBe(401);
  });

  test('is rejected from the next call on after a member is removed', async () => {
    const removed = await bench.member('admin');
    expect((await bench.post({ token: removed.token, body: list })).status).toBe(200);
    await removeMember(bench.database.pool, { shopId: 1n, email: removed.email, by: TEST_AUTHOR });
    await expectRejected(removed.token);
  });

  test('must be an MCP token, and REST does not accept MCP tokens', async () => {
    const headers = { 'x-authorization': bench.key };
    expect((await bench.post({ headers, body: list })).status).toBe(401);
    const url = `http://127.0.0.1:${bench.gateway.port}/api/2026-10/webhooks`;
    const { token } = owner;
    for (const sent of [{ authorization: `Bearer ${token}` }, { 'x-authorization': token }]) {
      const { body, statusCode } = await request(url, { headers: sent });
      await body.text();
      expect(statusCode).toBe(401);
    }
  });
});

describe('the request', () => {
  test.each(['GET', 'DELETE', 'PUT', 'HEAD'])('%s is not allowed', async (method) => {
    const response = await bench.post({ token: owner.token, method });
    expect(response).toMatchObject({ status: 405, headers: { allow: 'POST' } });
  });

  test('OPTIONS lists the methods', async () => {
    const response = await bench.post({ token: owner.token, method: 'OPTIONS' });
    expect(response).toMatchObject({ status: 204, headers: { allow: 'POST' } });
  });

  test('the list of tools is private in both eras', async () => {
    const { body } = await bench.post({ token: owner.token, body: list });
    expect(body.result).toMatchObject({ cacheScope: 'private', ttlMs: expect.any(Number) });
  });

  test('a plain POST with the two headers lists and calls, and gets JSON', async () => {
    const { token } = owner;
    const listed = await bench.post({ token, body: list });
    expect(listed.headers['content-type']).toBe('application/json');
    expect(listed.body.result.tools.length).toBe(TOOLS.length);
    const context = await bench.call(token, 'get_shop_context');
    expect(context.data).toMatchObject({
      shop: { id: 1, currency: 'GBP' },
      user: { role: 'owner' },
    });
    expect(JSON.parse(context.text)).toEqual(context.data);
  });

  test.each(['application/json', 'text/event-stream', '*/*', 'text/html'])(
    'Accept %s gets JSON all the same',
    async (accept) => {
      const response = await bench.post({ token: owner.token, body: list, headers: { accept } });
      expect(response).toMatchObject({ status: 200, body: { result: {} } });
    },
  );

  test('a batch is rejected in every revision', async () => {
    for (const version of [undefined, '2025-03-26', '2025-06-18', '2026-07-28']) {
      const headers = version ? { 'mcp-protocol-version': version } : {};
      for (const body of [[list], []]) {
        const { status, body: error } = await bench.post({ token: owner.token, headers, body });
        expect([status, error]).toMatchObject([400, { id: null, error: { code: -32600 } }]);
      }
    }
  });

  test.each<[string, { raw?: string | Buffer; headers?: Record<string, string> }, number, number]>([
    ['broken JSON', { raw: '{' }, 400, -32700],
    ['no UTF-8', { raw: Buffer.from([0x22, 0xff, 0x22]) }, 400, -32700],
    ['an empty body', { raw: '' }, 400, -32700],
    ['a number', { raw: '1' }, 400, -32600],
    ['too deep', { raw: `{"a":${'['.repeat(40)}${']'.repeat(40)}}` }, 400, -32700],
    ['another type', { raw: '{}', headers: { 'content-type': 'text/plain' } }, 415, -32000],
    ['too large', { raw: `{"a":"${'x'.repeat(9 * 1024 * 1024)}"}` }, 413, -32000],
  ])('%s is rejected', async (_, sent, status, code) => {
    const response = await bench.post({ token: owner.token, ...sent });
    expect(response).toMatchObject({ status, body: { jsonrpc: '2.0', error: { code } } });
  });

  test('a body may be compressed', async () => {
    const raw = gzipSync(JSON.stringify(list));
    const headers = { 'content-encoding': 'gzip' };
    expect((await bench.post({ token: owner.token, raw, headers })).status).toBe(200);
  });

  test('unknown methods, tools and prompts', async () => {
    const { token } = owner;
    expect((await bench.rpc(token, 'no/such')).body.error.code).toBe(-32601);
    const call = await bench.rpc(token, 'tools/call', { name: 'no_such', arguments: {} });
    expect(call.body.error).toMatchObject({ code: -32602, message: 'Unknown tool: no_such' });
    const proto = await bench.rpc(token, 'tools/call', { name: 'constructor' });
    expect(proto.body.error.code).toBe(-32602);
    const prompt = await bench.rpc(token, 'prompts/get', { name: 'no_such' });
    expect(prompt.body.error.code).toBe(-32602);
  });

  test('the tool reports arguments that are not an object', async () => {
    for (const args of ['[1]', 7, true, [{ return_id: 11 }]]) {
      const params = { name: 'get_return', arguments: args };
      const { status, body } = await bench.rpc(owner.token, 'tools/call', params);
      const text = expect.stringMatching(/arguments must be an object; you sent/);
      expect([status, body]).toMatchObject([
        200,
        { result: { isError: true, content: [{ text }] } },
      ]);
    }
  });

  test('null arguments count as absent', async () => {
    const params = { name: 'get_shop_context', arguments: null };
    const { body } = await bench.rpc(owner.token, 'tools/call', params);
    expect(body.result.structuredContent).toBeDefined();
  });

  test('the vocabulary is a resource; another resource is not found', async () => {
    const { token } = owner;
    const list = await bench.rpc(token, 'resources/list');
    const [{ uri }] = list.body.result.resources;
    const read = await bench.rpc(token, 'resources/read', { uri });
    expect(read.body.result.contents[0].text).toContain('`back_to_stock`');
    const other = await bench.rpc(token, 'resources/read', { uri: 'rms://no-such' });
    expect(other.body.error).toMatchObject({ data: { uri: 'rms://no-such' } });
    const templates = await bench.rpc(token, 'resources/templates/list');
    expect(templates.body.result.resourceTemplates).toEqual([]);
  });

  test('ping and initialize work without a session', async () => {
    const { token } = owner;
    expect((await bench.rpc(token, 'ping')).body.result).toEqual({});
    const response = await bench.rpc(token, 'initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    });
    expect(response.body.result).toMatchObject({
      protocolVersion: '2025-11-25',
      capabilities: { tools: {}, prompts: {}, resources: {} },
      serverInfo: { name: 'returns-management', icons: [{ mimeType: 'image/svg+xml' }] },
    });
    expect(response.body.result.capabilities.tools).toEqual({});
    expect(response.body.result.instructions).toMatch(/untrusted_data/);
    expect(response.headers['mcp-session-id']).toBeUndefined();
    const body = { jsonrpc: '2.0', method: 'notifications/initialized' };
    expect((await bench.post({ token, body })).status).toBe(202);
  });
});

describe('browsers', () => {
  test('a page of an unknown origin is rejected, with and without a token', async () => {
    for (const origin of ['https://evil.example', 'null', `${PUBLIC_URL}.evil.example`]) {
      for (const token of [owner.token, undefined]) {
        const o = { ...(token && { token }), headers: { origin }, body: list };
        const response = await bench.post(o);
        expect(response.status).toBe(403);
        expect(response.headers['access-control-allow-origin']).toBeUndefined();
      }
    }
  });

  test('an unknown host is rejected', async () => {
    const headers = { host: 'evil.example' };
    expect((await bench.post({ token: owner.token, headers, body: list })).status).toBe(403);
  });

  test('a page of a configured origin may call, and reads the headers it needs', async () => {
    const headers = { origin: ORIGIN };
    const exposed = {
      'access-control-allow-origin': ORIGIN,
      'access-control-expose-headers': 'WWW-Authenticate, Retry-After, X-Service-Environment',
    };
    const response = await bench.post({ token: owner.token, headers, body: list });
    expect(response).toMatchObject({ status: 200, headers: exposed });
    expect(await bench.post({ headers, body: list })).toMatchObject({
      status: 401,
      headers: exposed,
    });
    const preflight = await bench.post({
      method: 'OPTIONS',
      headers: { ...headers, 'access-control-request-method': 'POST' },
    });
    expect(preflight).toMatchObject({
      status: 204,
      headers: { ...exposed, allow: 'POST', 'access-control-allow-methods': 'POST' },
    });
  });

  test('the icon needs no credential', async () => {
    const response = await request(`${bench.mcpUrl}/icon.svg`);
    expect(response.statusCode).toBe(200);
    expect(response.headers['content-type']).toBe('image/svg+xml');
    expect(await response.body.text()).toMatch(/^<svg/);
  });
});

describe('the rate limit', () => {
  test('counts only tool calls, by user over all shops', async () => {
    const limited = await startMcpBench({ MCP_CALLS_PER_HOUR: 3 });
    try {
      const member = await limited.member('admin');
      const other = await limited.member('admin');
      const params = { name: 'get_shop_context', arguments: {} };
      for (let n = 0; n < 5; n += 1) {
        expect((await limited.rpc(member.token, 'tools/list')).status).toBe(200);
      }
      for (let n = 0; n < 3; n += 1) {
        expect((await limited.rpc(member.token, 'tools/call', params)).status).toBe(200);
      }
      const body = { jsonrpc: '2.0', id: 'seven', method: 'tools/call', params };
      const response = await limited.post({ token: member.token, body });
      expect(response).toMatchObject({
        status: 429,
        body: { jsonrpc: '2.0', id: 'seven', error: { code: 42900 } },
      });
      expect(Number(response.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect((await limited.rpc(member.token, 'tools/list')).status).toBe(200);
      expect((await limited.rpc(other.token, 'tools/call', params)).status).toBe(200);
    } finally {
      await limited.stop();
    }
  });
});
