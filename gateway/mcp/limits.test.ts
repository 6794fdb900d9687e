import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { untilDayLasts } from '../../test/kit/until.ts';

const SIZE = 3;
/** If the gateway read this body, the status would be 400. */
const NO_JSON = '{';
const DAY_MS = 86_400_000;

let bench: McpBench;

beforeAll(async () => {
  bench = await startMcpBench({
    MCP_REQUESTS_PER_MINUTE: SIZE,
    MCP_REFUSED_PER_MINUTE: SIZE,
  });
});
afterAll(() => bench.stop());
beforeEach(() => bench.gateway.resetLimits());

describe('the limit for requests to /mcp', () => {
  test.each([
    'initialize',
    'server/discover',
    'ping',
    'tools/list',
    'prompts/list',
    'prompts/get',
    'resources/list',
    'resources/read',
    'notifications/initialized',
    'made/up',
  ])('counts %s', async (method) => {
    const { token } = await bench.member('owner');
    for (let count = 0; count < SIZE; count += 1) {
      expect((await bench.rpc(token, method)).status).not.toBe(429);
    }
    const rejected = await bench.rpc(token, method);
    expect(rejected.status).toBe(429);
    expect(rejected.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect(rejected.body).toMatchObject({ id: null, error: { code: 42900 } });
  });

  test('counts a request before its body is read', async () => {
    const { token } = await bench.member('owner');
    for (let count = 0; count < SIZE; count += 1) await bench.rpc(token, 'ping');
    expect((await bench.post({ token, raw: NO_JSON })).status).toBe(429);
  });

  test('is per user', async () => {
    const [ada, bob] = [await bench.member('owner'), await bench.member('owner')];
    for (let count = 0; count <= SIZE; count += 1) await bench.rpc(ada.token, 'ping');
    expect((await bench.rpc(bob.token, 'ping')).status).toBe(200);
  });
});

describe('the limit for rejected requests to /mcp', () => {
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });

  test.each(['made-up', undefined])('get 429 instead of 401: token %s', async (token) => {
    const invalid = { ...from('203.0.113.1'), ...(token !== undefined && { token }) };
    for (let count = 0; count < SIZE; count += 1) {
      expect((await bench.post({ ...invalid, body: {} })).status).toBe(401);
    }
    expect((await bench.post({ ...invalid, raw: NO_JSON })).status).toBe(429);
    const { token: valid } = await bench.member('owner');
    const body = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const accepted = await bench.post({ ...from('203.0.113.1'), token: valid, body });
    expect(accepted.status).toBe(200);
    expect((await bench.post({ ...invalid, ...from('203.0.113.2'), body: {} })).status).toBe(401);
  });
});

describe('the bodies of requests to /mcp', () => {
  const message = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const raw = (bytes: number) => JSON.stringify(message).padEnd(bytes);
  const secondsToMidnight = () => Math.ceil((DAY_MS - (Date.now() % DAY_MS)) / 1_000);

  test('cost the user one point for each 64 KiB', async () => {
    const { token } = await bench.member('owner');
    expect((await bench.post({ token, raw: raw(1_000_000) })).status).toBe(200);
    const rejected = await bench.post({ token, body: message });
    expect(rejected).toMatchObject({ status: 429, body: { error: { code: 42900 } } });
  });

  test("count against the shop's daily quota, and get 429 above it", async () => {
    const small = await startMcpBench({ SHOP_MIB_PER_DAY: 1 });
    const { token } = await small.member('owner');
    await untilDayLasts();
    expect((await small.post({ token, raw: raw(700_000) })).status).toBe(200);
    const longest = secondsToMidnight();
    const rejected = await small.post({ token, raw: raw(700_000) });
    expect(rejected).toMatchObject({ status: 429, body: { error: { code: 42900 } } });
    const retryAfter = Number(rejected.headers['retry-after']);
    expect(retryAfter).toBeLessThanOrEqual(longest);
    expect(retryAfter).toBeGreaterThanOrEqual(secondsToMidnight());
    await small.stop();
  });
});
