import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  type McpBench,
  PUBLIC_URL,
  type SignedInMember,
  startMcpBench,
  toolResult,
} from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS } from '../../test/kit/gateway/tool-calls.ts';

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  owner = await bench.member('owner');
});
afterAll(() => bench?.stop());

/** The official client for one protocol revision. */
async function connect(version: '2026-07-28' | '2025-11-25', token = owner.token): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    version === '2026-07-28' ? { versionNegotiation: { mode: { pin: version } } } : {},
  );
  const headers = { Authorization: `Bearer ${token}` };
  const url = new URL(bench.mcpUrl);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return client;
}

describe.each(['2026-07-28', '2025-11-25'] as const)('the official client at %s', (version) => {
  test('gets the name and version of the server', async () => {
    const client = await connect(version);
    expect(client.getNegotiatedProtocolVersion()).toBe(version);
    expect(client.getInstructions()).toMatch(/cannot be undone/);
    expect(client.getServerCapabilities()).toEqual({ tools: {}, prompts: {}, resources: {} });
    expect(client.getServerVersion()).toMatchObject({ title: 'Returns management' });
    await client.close();
  });

  test('lists and calls every tool', async () => {
    const client = await connect(version);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(Object.keys(GOOD_CALLS));
    for (const [name, args] of Object.entries(GOOD_CALLS)) {
      // The client validates the result with the schema from the list.
      const result = toolResult((await client.callTool({ name, arguments: { ...args } })) as never);
      expect([name, result.isError]).toEqual([name, false]);
    }
    await client.close();
  });

  test('gets prompts', async () => {
    const client = await connect(version);
    const { prompts } = await client.listPrompts();
    expect(prompts.map(({ title }) => title)).toEqual([
      "Triage today's returns",
      'Why did this webhook fail',
      'Prepare the upgrade to 2026-10',
    ]);
    const name = 'why_did_this_webhook_fail';
    const { messages } = await client.getPrompt({ name, arguments: { webhook_id: '41' } });
    expect(JSON.stringify(messages)).toContain('webhook 41');
    await client.close();
  });

  test('gets errors', async () => {
    const client = await connect(version);
    await expect(client.callTool({ name: 'no_such' })).rejects.toMatchObject({ code: -32602 });
    const result = await client.callTool({ name: 'get_return', arguments: { return_id: 99 } });
    expect(result.isError).toBe(true);
    await client.close();
  });
});

describe('revision 2026-07-28', () => {
  const META = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const send = (method: string, params: object = {}, headers: Record<string, string> = {}) =>
    bench.post({
      token: owner.token,
      headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...headers },
      body: { jsonrpc: '2.0', id: 7, method, params: { ...params, _meta: META } },
    });

  test('only the client may cache lists', async () => {
    for (const method of ['tools/list', 'prompts/list']) {
      const { body } = await send(method);
      expect(body.result).toMatchObject({ cacheScope: 'private', ttlMs: expect.any(Number) });
    }
  });

  test('a header that contradicts the body is rejected', async () => {
    const response = await send('tools/list', {}, { 'mcp-method': 'tools/call' });
    expect(response.status).toBe(400);
    expect(response.body.error.code).toBe(-32020);
  });

  test.each(['initialize', 'ping'])('has no method %s, whatever its parameters', async (method) => {
    const { status, body } = await send(method, { protocolVersion: 5, name: {} });
    expect([status, body.error.code]).toEqual([404, -32601]);
  });

  test('a call needs no handshake, and its response contains the name of the server', async () => {
    const params = { name: 'get_shop_context', arguments: {} };
    const response = await send('tools/call', params, { 'mcp-name': 'get_shop_context' });
    expect(response.headers['content-type']).toBe('application/json');
    expect(response.body).toMatchObject({
      id: 7,
      result: { structuredContent: { shop: { id: 1 } } },
    });
  });

  test('the tool reports arguments that are not an object', async () => {
    const params = { name: 'get_return', arguments: [11] };
    const response = await send('tools/call', params, { 'mcp-name': 'get_return' });
    expect(response.body.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/arguments must be an object/) }],
    });
  });

  test('the server pushes nothing: a subscription ends immediately', async () => {
    const response = await send('subscriptions/listen', {
      notifications: { toolsListChanged: true },
    });
    expect(response.status).toBe(200);
    expect(response.text).toContain('"notifications":{}');
    expect(response.text).toContain('"resultType":"complete"');
  });
});

test.each(['/mcp/', '/MCP', '/mcp/sse', '/mcp/messages', '/sse', '/'])(
  'GET and POST %s name the address of the server, and keep their status',
  async (path) => {
    const url = new URL(path, bench.mcpUrl);
    const hint = `the MCP server is at ${PUBLIC_URL}/mcp`;
    for (const method of ['GET', 'POST']) {
      const response = await fetch(url, { method, redirect: 'manual' });
      const status = path === '/' && method === 'GET' ? 302 : 404;
      expect([response.status, response.headers.get('x-service-hint')]).toEqual([status, hint]);
    }
  },
);

test('other unknown paths do not name it', async () => {
  const response = await fetch(new URL('/mcps', bench.mcpUrl));
  expect([response.status, response.headers.get('x-service-hint')]).toEqual([404, null]);
});

test.each<[method: string, params: unknown, text: string]>([
  ['initialize', {}, 'params.protocolVersion is required.'],
  ['initialize', undefined, 'params is required.'],
  ['initialize', 'x', 'params must be an object; you sent the text "x".'],
  ['initialize', { protocolVersion: 5 }, 'params.protocolVersion must be a text; you sent 5.'],
  ['tools/call', { name: 5 }, 'params.name must be a text; you sent 5.'],
  ['tools/list', { cursor: 5 }, 'params.cursor must be a text; you sent 5.'],
  ['prompts/get', { name: 'x', arguments: { a: 5 } }, 'params.arguments.a must be a text'],
  ['resources/read', {}, 'params.uri is required.'],
  ['ping', [], 'params must be an object; you sent a list with 0 entries.'],
  [
    'tools/list',
    { _meta: { a: 1, progressToken: {} } },
    'params._meta.progressToken has a wrong form; you sent an object.',
  ],
  [
    'tools/list',
    { _meta: { 'io.modelcontextprotocol/clientInfo': { name: 5, version: '1' } } },
    'params._meta.io.modelcontextprotocol/clientInfo.name must be a text; you sent 5.',
  ],
])('wrong parameters of %s are -32602: %j', async (method, params, text) => {
  const body = { jsonrpc: '2.0', id: 7, method, params };
  const response = await bench.post({ token: owner.token, body });
  expect(response.body).toMatchObject({
    id: 7,
    error: { code: -32602, message: expect.stringContaining(`Invalid parameters: ${text}`) },
  });
});

test.each<[method: string, params: unknown]>([
  ['ping', null],
  ['tools/list', { cursor: null, _meta: null }],
  ['tools/list', { _meta: { progressToken: null } }],
  ['tools/call', { name: 'get_shop_context', arguments: null, task: null }],
  ['tools/call', { name: 'get_shop_context', arguments: [] }],
  ['tools/call', { name: 'get_shop_context', arguments: '' }],
  ['tools/call', { name: 'get_shop_context', arguments: 'null' }],
  ['prompts/get', { name: 'triage_todays_returns', arguments: null }],
  ['prompts/get', { name: 'why_did_this_webhook_fail', arguments: { webhook_id: null } }],
  [
    'initialize',
    {
      protocolVersion: '2025-11-25',
      capabilities: { sampling: null },
      clientInfo: { name: 'a', version: '1', title: null },
    },
  ],
])('%s accepts nothing in each form: %j', async (method, params) => {
  const { status, body } = await bench.post({
    token: owner.token,
    body: { jsonrpc: '2.0', id: 7, method, params },
  });
  expect([status, body.error, body.result.isError ?? false]).toEqual([200, undefined, false]);
});

test('a notification may have null for its parameters', async () => {
  const body = { jsonrpc: '2.0', method: 'notifications/initialized', params: null };
  expect((await bench.post({ token: owner.token, body })).status).toBe(202);
});

test.each([
  'list_webhooks',
  'list_destinations',
  'list_assistants',
  'list_webhook_deliveries',
  'list_webhook_replays',
  'search_returns',
])('%s gives the first page for a cursor that is none', async (tool) => {
  for (const cursor of ['', ' ', 'null', null]) {
    const { isError, text } = await bench.call(owner.token, tool, { cursor });
    expect([cursor, isError, text]).toEqual([cursor, false, expect.any(String)]);
  }
});

test.each<[message: object, text: string]>([
  [{ id: 7, method: 'ping' }, 'jsonrpc must be "2.0"'],
  [{ jsonrpc: '2.0', id: 1.5, method: 'ping' }, 'id must be a text or a whole number'],
  [{ jsonrpc: '2.0', id: null, method: 'ping' }, 'id must be a text or a whole number'],
  [{ jsonrpc: '2.0', id: 7, method: 5 }, 'method must be a text'],
])('a message with a wrong part names it: %j', async (body, text) => {
  const response = await bench.post({ token: owner.token, body });
  expect([response.status, response.body.error]).toEqual([
    400,
    { code: -32600, message: expect.stringContaining(`Invalid request: ${text}`) },
  ]);
});

test('a prompt names an unknown argument and the known ones', async () => {
  const params = { name: 'why_did_this_webhook_fail', arguments: { id: '41' } };
  const { body } = await bench.rpc(owner.token, 'prompts/get', params);
  expect(body.error.message).toBe(
    'id is not an argument of this prompt. Its arguments: webhook_id.',
  );
});
