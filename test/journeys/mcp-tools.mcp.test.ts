import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/client';
import type { Browser } from 'playwright-core';
import { REVISIONS, signIn } from '../kit/mcp/assistant.ts';
import { startBrowser } from '../kit/mcp/browser.ts';
import { personOf, sharedStack } from '../kit/mcp/shared-stack.ts';
import type { OpenStack } from '../kit/stack.ts';

let stack: OpenStack;
let browser: Browser;
beforeAll(async () => {
  stack = await sharedStack();
  browser = await startBrowser();
}, 180_000);
afterAll(() => browser?.close(), 60_000);

type Call = readonly [tool: string, args: Record<string, unknown>];

/** Connects another assistant for the owner, which no other call uses. Returns its id. */
async function anotherAssistant(): Promise<string | undefined> {
  const person = personOf(stack, 'owner');
  const { client } = await signIn({ stack, browser, person, revision: '2026-07-28', hinted: true });
  if (!client) throw new Error('not signed in');
  const of = { name: 'list_assistants', arguments: { limit: 50 } };
  const { structuredContent } = await client.callTool(of);
  await client.close();
  const { assistants } = structuredContent as {
    assistants: { assistant_id: string; is_this_connection: boolean }[];
  };
  return assistants.find(({ is_this_connection }) => is_this_connection)?.assistant_id;
}

/** One call of every tool, in an order in which all succeed. */
async function everyCall(client: Client): Promise<readonly Call[]> {
  const { shop } = stack;
  const [worked, cancelled, processed] = await Promise.all(
    ['open', 'open', 'open'].map((kind) => stack.fixture(kind)),
  );
  const return_id = worked?.id;
  const of = { return_id };
  const items = [{ line_item_id: worked?.line_item_ids[0], disposition_outcome: 'recycle' }];
  const [hook] = shop.fixtures.webhooks;
  // Of a webhook that exists: other tests on this stack delete theirs.
  const ended = { webhook_id: hook?.id, state: 'delivered', limit: 1 };
  const { structuredContent } = await client.callTool({
    name: 'list_webhook_deliveries',
    arguments: ended,
  });
  const [delivery] = (structuredContent as { deliveries: { id: string }[] }).deliveries;
  // No delivery is about this return, so the job ends immediately.
  const replay = { return_id: 987_654_321, from: '2026-11-01T00:00:00Z' };
  const started = await client.callTool({ name: 'start_webhook_replay', arguments: replay });
  const { id: replay_id } = (started.structuredContent as { replay: { id: number } }).replay;
  return [
    ['get_shop_context', {}],
    ['search_returns', { query: worked?.order_name, detail: 'full' }],
    ['get_return', of],
    ['get_return_timeline', of],
    ['get_returns_summary', {}],
    ['add_return_note', { ...of, text: 'Called the shopper' }],
    ['flag_return', { ...of, reasons: ['Odd'] }],
    ['unflag_return', of],
    ['record_dispositions', { items }],
    ['create_fraud_report', { ...of, category: 'item-is-worn' }],
    ['get_fraud_report', of],
    ['list_fraud_categories', {}],
    ['cancel_return', { return_id: cancelled?.id }],
    ['process_return', { return_id: processed?.id, idempotency_key: crypto.randomUUID() }],
    ['list_destinations', {}],
    [
      'update_destination',
      { destination_id: shop.fixtures.destinations.donation, name: 'Donation centre' },
    ],
    ['create_cart', { items: [{ variant_id: 50_001, quantity: 2 }] }],
    ['list_webhooks', {}],
    [
      'create_webhook',
      { topic: 'label', trigger: 'label.created', url: 'https://hooks.example.com/new' },
    ],
    ['update_webhook', { webhook_id: hook?.id, status: 'active' }],
    ['test_webhook', { webhook_id: hook?.id }],
    ['rotate_webhook_secret', { webhook_id: hook?.id, overlap_hours: 1 }],
    ['list_webhook_deliveries', ended],
    ['replay_webhook_delivery', { delivery_id: delivery?.id }],
    ['preview_webhook_replay', replay],
    ['start_webhook_replay', replay],
    ['list_webhook_replays', { replay_id }],
    ['cancel_webhook_replay', { replay_id }],
    ['list_assistants', {}],
    ['disconnect_assistant', { assistant_id: await anotherAssistant() }],
  ];
}

describe.each(REVISIONS)('an assistant of revision %s, once signed in', (revision) => {
  let client: Client;
  beforeAll(async () => {
    const person = personOf(stack, 'owner');
    const session = await signIn({ stack, browser, person, revision, hinted: true });
    if (!session.client) throw new Error(`not signed in: ${session.text}`);
    client = session.client;
  }, 180_000);
  afterAll(() => client?.close());

  test('lists every tool, and calls each of them', async () => {
    const { tools } = await client.listTools();
    const calls = await everyCall(client);
    expect(calls.map(([name]) => name).sort()).toEqual(tools.map(({ name }) => name).sort());
    for (const [name, args] of calls) {
      const { isError = false, content } = await client.callTool({ name, arguments: args });
      expect([name, isError, isError && content]).toEqual([name, false, false]);
    }
  });

  test('gets every prompt and resource', async () => {
    const { prompts } = await client.listPrompts();
    expect(prompts).toHaveLength(3);
    for (const { name, arguments: wanted = [] } of prompts) {
      const given = wanted.map((argument) => [argument.name, '1'] as const);
      const { messages } = await client.getPrompt({ name, arguments: Object.fromEntries(given) });
      expect(messages).not.toEqual([]);
    }
    const { resources } = await client.listResources();
    for (const { uri } of resources) {
      expect((await client.readResource({ uri })).contents).not.toEqual([]);
    }
  });
});
