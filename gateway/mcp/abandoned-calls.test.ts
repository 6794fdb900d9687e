import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import { sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS } from '../../test/kit/gateway/tool-calls.ts';
import { until } from '../../test/kit/until.ts';
import type { ActionName } from '../actions/permissions.ts';

/** Maximum number of running calls, including a burst. */
const MOST_AT_ONCE = 4;

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench({ MAX_REQUESTS_IN_FLIGHT: MOST_AT_ONCE / 4 });
  owner = await bench.member('owner');
});
afterAll(() => bench.stop());

/** Calls at the fake service. They run until `answer` resolves or their caller aborts. */
const calls = { begun: 0, running: 0, most: 0, ended: 0 };
let answer = Promise.withResolvers<void>();

async function hang(signal: AbortSignal) {
  calls.begun += 1;
  calls.running += 1;
  calls.most = Math.max(calls.most, calls.running);
  const left = new Promise((resolve) => signal.addEventListener('abort', resolve));
  await Promise.race([answer.promise, left]);
  calls.running -= 1;
  calls.ended += 1;
  return { return: sampleReturn() };
}

beforeEach(() => {
  Object.assign(calls, { begun: 0, running: 0, most: 0, ended: 0 });
  answer = Promise.withResolvers();
  bench.services.returns.flagReturn = (_, { signal }) => hang(signal);
  bench.services.returns.findReturn = (_, { signal }) => hang(signal);
});

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** A client that can disconnect, and the status that it gets. */
function call(name: ActionName, isModern: boolean) {
  const leaving = new AbortController();
  const params = { name, arguments: GOOD_CALLS[name], ...(isModern && { _meta: META }) };
  const headers = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': name,
  };
  const status = request(bench.mcpUrl, {
    method: 'POST',
    signal: leaving.signal,
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
    () => 'left',
  );
  return { status, leave: () => leaving.abort() };
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
      client.leave();
      statuses.push(await client.status);
    }
    expect(calls.most).toBeLessThanOrEqual(MOST_AT_ONCE);
    expect(statuses).toContain(503);
    answer.resolve();
    await until(async () => (await call('flag_return', isModern).status) === 200);
  });

  test('have their reads aborted', async () => {
    const client = await until(async () => {
      const one = call('get_return', isModern);
      const first = await Promise.race([one.status, until(() => calls.begun > 0)]);
      return first === true && one;
    });
    client.leave();
    await until(() => calls.ended === 1);
    expect(await client.status).toBe('left');
  });
});
