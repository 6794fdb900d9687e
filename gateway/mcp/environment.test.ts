import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type McpBench,
  type McpResponse,
  type SignedInMember,
  startMcpBench,
} from '../../test/kit/gateway/mcp.ts';

let bench: McpBench;
let live: SignedInMember;
let sandbox: SignedInMember;

beforeAll(async () => {
  bench = await startMcpBench();
  live = await bench.member('owner');
  sandbox = await bench.member('owner', await bench.newShop({ sandbox: true }));
}, 60_000);
afterAll(() => bench?.stop());

const mark = ({ headers }: McpResponse) => headers['x-service-environment'];
const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

describe('the MCP server', () => {
  test.each<[number, Parameters<McpBench['post']>[0]]>([
    [200, { body: list }],
    [200, { body: { ...list, method: 'nothing' } }],
    [400, { raw: '{' }],
    [204, { method: 'OPTIONS' }],
    [405, { method: 'GET' }],
  ])('says sandbox to users of a sandbox only, in %i', async (status, sent) => {
    const inSandbox = await bench.post({ ...sent, token: sandbox.token });
    expect([inSandbox.status, mark(inSandbox)]).toEqual([status, 'sandbox']);
    const inLive = await bench.post({ ...sent, token: live.token });
    expect(inLive.status).toBe(status);
    expect(inLive.headers).not.toHaveProperty('x-service-environment');
  });

  test('says it for tool calls, and in the next response after a switch', async () => {
    const call = (member: SignedInMember) =>
      bench.rpc(member.token, 'tools/call', { name: 'search_returns', arguments: {} });
    expect(mark(await call(sandbox))).toBe('sandbox');
    const shopId = await bench.newShop();
    const member = await bench.member('owner', shopId);
    expect(mark(await call(member))).toBeUndefined();
    await bench.database.pool.query('update shops set sandbox = true where id = $1', [shopId]);
    expect(mark(await call(member))).toBe('sandbox');
  });

  test('says nothing without a valid token', async () => {
    expect(mark(await bench.post({ token: `${sandbox.token}x`, body: list }))).toBeUndefined();
  });
});
