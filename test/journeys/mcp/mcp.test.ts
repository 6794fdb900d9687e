import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { during } from '../../kit/during.ts';
import { type ToolResult, toolResult } from '../../kit/gateway/mcp.ts';
import { firstOf, journeyForTests, untilState } from '../../kit/journeys/journey.ts';
import { until } from '../../kit/until.ts';

// An assistant with the real services. gateway/mcp tests the rules; tools.mcp.test.ts calls every tool.

const journey = journeyForTests();
const connected = during(async () => {
  const client = new Client({ name: 'journey', version: '1.0.0' });
  const url = new URL(`${journey.stack.file.base_url}/mcp`);
  const owner = journey.stack.file.users.find(({ name }) => name === 'owner');
  const headers = { Authorization: `Bearer ${owner?.mcp_tokens[String(journey.stack.shop.id)]}` };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  // From here on the client validates every result with the schema of the tool list.
  await client.listTools();
  return { client, stop: () => client.close() };
});

async function call(name: string, args: object = {}): Promise<ToolResult> {
  const result = await connected().client.callTool({ name, arguments: { ...args } });
  return toolResult(result as Parameters<typeof toolResult>[0]);
}

test('a return has the same content as over REST', async () => {
  const { id, order_name, provider_order_id } = firstOf(journey.stack.shop, 'two_labels');
  const path = `/api/2026-10/warehouse/return/details?return_id=${id}`;
  const { body } = await journey.send({ path });
  for (const by of [{ return_id: id }, { order_name }, { order_id: provider_order_id }]) {
    const { data } = await call('get_return', { ...by, detail: 'full' });
    expect(data.untrusted_details).toEqual(body);
  }
});

test('processes a return once, even when it is called repeatedly, with the user as actor', async () => {
  const { id } = await journey.stack.fixture('two_currencies');
  const args = { return_id: id, idempotency_key: randomUUID() };
  const first = await call('process_return', args);
  expect(first.data).toMatchObject({ return_id: id, result: 'queued' });
  expect(await call('process_return', args)).toEqual(first);
  await untilState(journey, id, 'closed');
  const orders = `/commerce/orders?return_id=${id}`;
  expect(await journey.stack.control('GET', orders)).toMatchObject({ refunds: [{ calls: 1 }] });
  const again = await call('process_return', { return_id: id });
  expect(again).toMatchObject({
    isError: true,
    text: expect.stringMatching(/cannot be processed/),
  });
  const { data } = await call('get_return_timeline', { return_id: id });
  const queued = data.entries.find(
    ({ kind }: { kind: string }) => kind === 'return.processing.queued',
  );
  expect(queued).toMatchObject({ author_kind: 'user' });
  expect(JSON.stringify(data)).not.toMatch(/@/);
});

test('an outage of a service is reported without its cause, and is temporary', async () => {
  const { id } = firstOf(journey.stack.shop, 'open');
  await journey.stack.control('POST', '/services/returns/stop');
  const read = await call('get_return', { return_id: id });
  const write = await call('add_return_note', { return_id: id, text: 'x' });
  await journey.stack.control('POST', '/services/returns/start');
  expect(read).toMatchObject({
    isError: true,
    text: expect.stringMatching(/Try again in a few/),
  });
  expect(write.text).toMatch(/first read whether the change was made/);
  for (const { text } of [read, write]) expect(text).not.toMatch(/ECONN|UNAVAILABLE|127\.0/i);
  await until(async () => !(await call('get_return', { return_id: id })).isError);
});
