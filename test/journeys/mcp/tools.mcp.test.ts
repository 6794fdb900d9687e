import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/client';
import type { SampleObjects } from '../../../gateway/mcp/tool.ts';
import { TOOLS } from '../../../gateway/mcp/tools.ts';
import { longText } from '../../kit/gateway/tool-calls.ts';
import { REVISIONS, signIn } from '../../kit/mcp/assistant.ts';
import { personOf } from '../../kit/mcp/shared-stack.ts';
import { portalForTests } from '../../kit/portal/visitor.ts';

const portal = portalForTests();

/** Connects another assistant for the owner, which no other call uses. Returns its id. */
async function anotherAssistant(): Promise<string | undefined> {
  const person = personOf(portal.stack, 'owner');
  const { client } = await signIn({ ...portal, person, revision: '2026-07-28', hinted: true });
  if (!client) throw new Error('not signed in');
  const of = { name: 'list_assistants', arguments: { limit: 50 } };
  const { structuredContent } = await client.callTool(of);
  await client.close();
  const { assistants } = structuredContent as {
    assistants: { assistant_id: string; is_this_connection: boolean }[];
  };
  return assistants.find(({ is_this_connection }) => is_this_connection)?.assistant_id;
}

/** Returns that no other call has used. */
async function unusedReturns() {
  const [open, flagged] = await Promise.all([
    portal.stack.fixture('open'),
    portal.stack.fixture('flagged'),
  ]);
  return { openReturn: open.id, flaggedReturn: flagged.id, lineItems: open.line_item_ids };
}

/** Objects of the stack with which every call succeeds. */
async function objects(client: Client): Promise<SampleObjects> {
  const { returns, destinations, webhooks } = portal.stack.shop.fixtures;
  const resultOf = async (name: string, args: object) =>
    (await client.callTool({ name, arguments: { ...args } })).structuredContent;
  // Of a webhook that exists: other tests on this stack delete theirs.
  const webhook = webhooks[0]?.id ?? 0;
  const ended = { webhook_id: webhook, state: 'delivered', limit: 1 };
  const { deliveries } = (await resultOf('list_webhook_deliveries', ended)) as {
    deliveries: { id: string }[];
  };
  // No delivery is about this return, so the job ends immediately.
  const none = { return_id: 987_654_321, from: '2026-11-01T00:00:00Z' };
  const { replay } = (await resultOf('start_webhook_replay', none)) as { replay: { id: number } };
  return {
    ...(await unusedReturns()),
    closedReturn: returns.closed?.[0]?.id ?? 0,
    reportedReturn: returns.fraud_reported?.[0]?.id ?? 0,
    destination: destinations.donation,
    webhook,
    delivery: deliveries[0]?.id ?? '',
    replay: replay.id,
    assistant: (await anotherAssistant()) ?? '',
    longText,
  };
}

describe.each(REVISIONS)('an assistant of revision %s, once signed in', (revision) => {
  let client: Client;
  beforeAll(async () => {
    const person = personOf(portal.stack, 'owner');
    const session = await signIn({ ...portal, person, revision, hinted: true });
    if (!session.client) throw new Error(`not signed in: ${session.text}`);
    client = session.client;
  });
  afterAll(() => client?.close());

  test('lists every tool, and calls each of them', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(TOOLS.map(({ name }) => name));
    const shared = await objects(client);
    for (const { name, sample } of TOOLS) {
      const args = sample({ ...shared, ...(await unusedReturns()) });
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
