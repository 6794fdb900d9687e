import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import { sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS } from '../../test/kit/gateway/tool-calls.ts';
import { until } from '../../test/kit/until.ts';
import type { ActionName } from '../actions/permissions.ts';

/** Maximum number of running calls, including a burst. */
const MAX_CONCURRENT = 4;

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench({ MAX_REQUESTS_IN_FLIGHT: MAX_CONCURRENT / 4 });
  owner = await bench.member('owner');
});
afterAll(() => bench.stop());

/** Calls at the fake service. They run until `response` resolves or their caller aborts. */
const calls = { begun: 0, running: 0, maxRunning: 0, ended: 0 };
let response = Promise.withResolvers<void>();

async function waitForResponse(signal: AbortSignal) {
  calls.begun += 1;
  calls.running += 1;
  calls.maxRunning = Math.max(calls.maxRunning, calls.running);
  const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve));
  await Promise.race([response.promise, aborted]);
  calls.running -= 1;
  calls.ended += 1;
  return { return: sampleReturn() };
}

beforeEach(() => {
  Object.assign(calls, { begun: 0, running: 0, maxRunning: 0, ended: 0 });
  response = Promise.withResolvers();
  bench.services.returns.flagReturn = (_, { signal }) => waitForResponse(signal);
  bench.services.returns.findReturn = (_, { signal }) => waitForResponse(signal);
});

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** Makes a call. `status` resolves to the HTTP status, or to `disconnected`. */
function call(name: ActionName, isModern: boolean) {
  const abort = new AbortController();
  const params = { name, arguments: GOOD_CALLS[name], ...(isModern && { _meta: META }) };
  const headers = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': name,
  };
  const status = request(bench.mcpUrl, {
    method: 'POST',
    signal: abort.signal,
    headers: {
      authorization: `Bearer ${owner.token}`,
      'content-type': 'application/json',
      ...(isModern && headers),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  }).then(
    async ({ statusCode, body }) => {
      await body.dump();
      return statusCode;
    },
    () => 'disconnected',
  );
  return { status, disconnect: () => abort.abort() };
}

describe.each([
  ['2025-11-25', false],
  ['2026-07-28', true],
])('clients that disconnect during a call, at %s', (_, isModern) => {
  test('occupy their slot until the work ends', async () => {
    const statuses: unknown[] = [];
    for (let nth = 1; nth <= 8; nth += 1) {
      const before = calls.begun;
      const client = call('flag_return', isModern);
      let status: unknown;
      void client.status.then((value) => {
        status = value;
      });
      await until(() => calls.begun > before || status !== undefined);
      client.disconnect();
      statuses.push(await client.status);
    }
    expect(calls.maxRunning).toBeLessThanOrEqual(MAX_CONCURRENT);
    expect(statuses).toContain(503);
    response.resolve();
    await until(async () => (await call('flag_return', isModern).status) === 200);
  });

  test('have their reads aborted', async () => {
    const client = await until(async () => {
      const one = call('get_return', isModern);
      const first = await Promise.race([one.status, until(() => calls.begun > 0)]);
      return first === true && one;
    });
    client.disconnect();
    await until(() => calls.ended === 1);
    expect(await client.status).toBe('disconnected');
  });
});
