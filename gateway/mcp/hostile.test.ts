import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  owner = await bench.member('owner');
}, 60_000);
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
  const { rows } = await bench.database.pool.query(
    "select subject from audit_log where action = 'mcp.replay_webhook_delivery'",
  );
  expect(rows).toEqual([]);
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
  const args = { destination_id: 31, name: 'Depot', address: { city: 'Leeds', country_code: '' } };
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
