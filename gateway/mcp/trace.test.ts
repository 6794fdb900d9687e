import type { HandlerContext } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';

const OUTER = '0af7651916cd43dd8448eb211c80319c';
const INNER = '11f7651916cd43dd8448eb211c803111';
const traceparent = (trace: string) => `00-${trace}-b7ad6b7169203331-01`;

let bench: McpBench;
let owner: SignedInMember;
let received: string | null = null;
beforeAll(async () => {
  bench = await startMcpBench();
  owner = await bench.member('owner');
  Object.assign(bench.services.returns, {
    searchReturns: (_request: unknown, context: HandlerContext) => {
      received = context.requestHeader.get('traceparent');
      return { returns: [], nextCursor: '', total: 0 };
    },
  });
}, 60_000);
afterAll(() => bench?.stop());

async function search(_meta: object): Promise<string | null> {
  const params = { name: 'search_returns', arguments: {}, _meta };
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const headers = { traceparent: traceparent(OUTER) };
  const response = await bench.post({ token: owner.token, headers, body });
  expect(response.body.result.isError).toBeUndefined();
  return received;
}

describe('the trace of a call', () => {
  test('is the trace of the message, also in the services', async () => {
    expect(await search({ traceparent: traceparent(INNER) })).toContain(INNER);
  });

  test.each([
    {},
    { traceparent: 'x' },
    { traceparent: 7 },
    { traceparent: traceparent('0'.repeat(32)) },
  ])('is the trace of the HTTP request for _meta %j', async (meta) => {
    expect(await search(meta)).toContain(OUTER);
  });
});
