import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { auditLogOf } from '../../test/kit/gateway/audit-log.ts';
import { sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { untilDayLasts } from '../../test/kit/until.ts';

describe('hostile requests to /mcp', () => {
  let bench: McpBench;
  let owner: SignedInMember;
  beforeAll(async () => {
    bench = await startMcpBench();
    owner = await bench.member('owner');
  });
  afterAll(() => bench?.stop());

  const many = (entry: (at: number) => string) =>
    Array.from({ length: 10_001 }, (_, at) => entry(at)).join();

  test.each([
    ['names', `{"_meta":{${many((at) => `"k${at}":1`)}}}`],
    ['entries of a list', `{"x":[${many(() => '1')}]}`],
    ['lists', `{"x":[${many(() => '[]')}]}`],
  ])('a message with too many %s is rejected', async (_, params) => {
    const raw = `{"jsonrpc":"2.0","id":1,"method":"ping","params":${params}}`;
    const response = await bench.post({ token: owner.token, raw });
    expect(response.status).toBe(400);
    expect(response.body).toMatchObject({
      error: {
        code: -32700,
        message: 'Parse error: The body must not have more than 10000 entries.',
      },
    });
  });

  test('brackets and commas in texts are not counted', async () => {
    const params = { _meta: { note: ',[{'.repeat(20_000) } };
    const body = { jsonrpc: '2.0', id: 1, method: 'ping', params };
    expect((await bench.post({ token: owner.token, body })).status).toBe(200);
  });

  test('a delivery id with free text is rejected, and is not in the audit log', async () => {
    const result = await bench.call(owner.token, 'replay_webhook_delivery', {
      delivery_id: 'msg_somebody@example.com',
    });
    expect(result.text).toContain('delivery_id must be the id of a delivery');
    const action = 'mcp.replay_webhook_delivery';
    expect(await auditLogOf(bench.database.pool, { action })).toEqual([]);
  });

  test('a number that a double rounds to an id is no id', async () => {
    const callWith = (id: string) => {
      const params = `{"name":"get_return","arguments":{"return_id":${id}}}`;
      const raw = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`;
      return bench.post({ token: owner.token, raw });
    };
    expect((await callWith('11.0')).body).toMatchObject({ result: { structuredContent: {} } });
    for (const id of ['11.0000000000000000001', '10.9999999999999999999']) {
      expect((await callWith(id)).body).toMatchObject({ result: { isError: true } });
    }
  });

  test('the cursor of one list is rejected by another, which would skip entries', async () => {
    const subscription = sampleSubscription();
    Object.assign(bench.services.webhooks, {
      listSubscriptions: () => ({ subscriptions: [subscription, { ...subscription, id: 9_999n }] }),
    });
    for (const [of, other] of [
      ['list_webhooks', 'list_destinations'],
      ['list_destinations', 'list_webhooks'],
    ] as const) {
      const { data } = await bench.call(owner.token, of, { limit: 1 });
      const { isError, text } = await bench.call(owner.token, other, { cursor: data.next_cursor });
      expect([isError, text]).toEqual([
        true,
        expect.stringContaining('a previous page of this list'),
      ]);
    }
    bench.resetServices();
  });

  test('a period that ends before it begins is rejected, and not empty', async () => {
    const period = { created_from: '2026-11-02T00:00:00Z', created_to: '2026-11-01T00:00:00Z' };
    const { isError, text } = await bench.call(owner.token, 'search_returns', period);
    expect([isError, text]).toEqual([true, 'created_to must be after created_from.']);
  });

  test('an error names a problem once', async () => {
    const { text } = await bench.call(owner.token, 'get_return', { return_id: 1e20 });
    expect(text.match(/return_id must be/g)).toHaveLength(1);
  });

  test('an empty header with the protocol version is an absent one', async () => {
    const body = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const headers = { 'mcp-protocol-version': '' };
    expect((await bench.post({ token: owner.token, headers, body })).status).toBe(200);
  });

  test('an address can be sent back as list_destinations returns it', async () => {
    const args = {
      destination_id: 31,
      name: 'Depot',
      address: { city: 'Leeds', country_code: '' },
    };
    const { data } = await bench.call(owner.token, 'update_destination', args);
    expect(data.destination.address).toMatchObject({ city: 'Leeds', country_code: '' });
  });

  test('an address without text is rejected, because it would delete the stored one', async () => {
    for (const address of [{}, { city: null, zip: ' ' }]) {
      const args = { destination_id: 31, name: 'Depot', address };
      const { isError, text } = await bench.call(owner.token, 'update_destination', args);
      expect([isError, text]).toEqual([true, expect.stringContaining('Omit it to keep')]);
    }
  });
});

describe('limits of /mcp', () => {
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
});

describe('the budget of bodies at /mcp', () => {
  const MIB = 1024 * 1024;
  /** This is not JSON, so status 400 shows that the body was read. */
  const body = (size: number): string => '{'.padEnd(size, ' ');

  let bench: McpBench;
  beforeAll(async () => {
    bench = await startMcpBench({ bodyBudget: { process: 2 * MIB, caller: 1.75 * MIB } });
  });
  afterAll(() => bench.stop());

  test.each([
    ["above the user's budget", 1.8 * MIB, 429, 42_900],
    ['above the budget of the process', 1.6 * MIB, 503, -32_603],
    ['within both budgets', 1.4 * MIB, 400, -32_700],
  ])('a body at /mcp %s', async (_, size, status, code) => {
    const { token } = await bench.member('owner');
    const response = await bench.post({ token, raw: body(size) });
    expect(response).toMatchObject({ status, body: { id: null, error: { code } } });
    const retryAfter = response.headers['retry-after'];
    if (status === 400) expect(retryAfter).toBeUndefined();
    else expect(retryAfter).toMatch(/^[1-9]\d*$/);
  });
});
