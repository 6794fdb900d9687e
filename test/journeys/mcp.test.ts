import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import pg from 'pg';
import { type ToolResult, toolResult } from '../kit/gateway/mcp.ts';
import { firstOf, type Journey, startJourney, untilState } from '../kit/journeys/journey.ts';
import { until } from '../kit/until.ts';

let journey: Journey;
let client: Client;
beforeAll(async () => {
  journey = await startJourney();
  client = await connect(tokenOf('owner', journey.stack.shop.id));
}, 120_000);
afterAll(async () => {
  await client?.close();
  await journey?.stop();
}, 60_000);

function tokenOf(name: string, shopId: number): string {
  const user = journey.stack.file.users.find((one) => one.name === name);
  return user?.mcp_tokens[String(shopId)] ?? '';
}

async function connect(token: string): Promise<Client> {
  const made = new Client({ name: 'journey', version: '1.0.0' });
  const url = new URL(`${journey.stack.file.base_url}/mcp`);
  const headers = { Authorization: `Bearer ${token}` };
  await made.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  // From here on the client validates every result with the schema of the tool list.
  await made.listTools();
  return made;
}

async function call(name: string, args: object = {}, as = client): Promise<ToolResult> {
  const result = await as.callTool({ name, arguments: { ...args } });
  return toolResult(result as Parameters<typeof toolResult>[0]);
}

/** Reads all pages of a list. */
async function walk<T>(name: string, list: string, args: object): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null = null;
  do {
    const { data } = await call(name, { ...args, ...(cursor && { cursor }) });
    all.push(...data[list]);
    cursor = data.next_cursor;
  } while (cursor);
  return all;
}

describe('reading', () => {
  test('a return has the same content as over REST', async () => {
    const { id, order_name, provider_order_id } = firstOf(journey.stack.shop, 'two_labels');
    const rest = await journey.send({
      path: `/api/2026-10/warehouse/return/details?return_id=${id}`,
    });
    for (const by of [{ return_id: id }, { order_name }, { order_id: provider_order_id }]) {
      const { data } = await call('get_return', { ...by, detail: 'full' });
      expect(data.untrusted_details).toEqual(rest.body);
    }
  });

  test('pages contain every return once, with masked e-mail addresses', async () => {
    const all = await walk<{ id: number; customer_email_masked: string | null }>(
      'search_returns',
      'returns',
      { limit: 7, include_archived: true },
    );
    const { data } = await call('search_returns', { limit: 1, include_archived: true });
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(all).toHaveLength(data.total);
    for (const { customer_email_masked: masked } of all) {
      if (masked !== null) expect(masked).toMatch(/^.\*\*\*@/);
    }
  });

  test('a cursor of other filters is rejected, and the text says what to do', async () => {
    const { data } = await call('search_returns', { limit: 1, states: ['open'] });
    const other = await call('search_returns', { limit: 1, cursor: data.next_cursor });
    expect([other.isError, other.text]).toEqual([
      true,
      expect.stringContaining('repeat those, or start without cursor'),
    ]);
  });

  test('every other list returns its items', async () => {
    const { shop } = journey.stack;
    const { id } = firstOf(shop, 'graded');
    const timeline = await walk<{ kind: string }>('get_return_timeline', 'entries', {
      return_id: id,
      limit: 1,
    });
    expect(timeline.map(({ kind }) => kind)).toContain('return.submitted');
    const destinations = await walk<{ id: number }>('list_destinations', 'destinations', {
      limit: 1,
    });
    expect(destinations.map((one) => one.id)).toContain(shop.fixtures.destinations.linked);
    const webhooks = await call('list_webhooks', { detail: 'full' });
    expect(webhooks.data.payload_version).toBe(shop.payload_version);
    expect(webhooks.text).not.toContain('whsec_');
    const sums = await call('get_returns_summary');
    expect(sums.data).toMatchObject({ currency: shop.currency });
    const categories = await call('list_fraud_categories');
    expect(categories.data.categories).toHaveLength(8);
    const reported = firstOf(shop, 'fraud_reported');
    const report = await call('get_fraud_report', { return_id: reported.id });
    expect(report.data.report).toMatchObject({ return_id: reported.id });
    expect((await call('list_webhook_deliveries', { detail: 'full' })).isError).toBe(false);
  });

  test('objects of another shop look like objects that do not exist', async () => {
    const { id } = firstOf(journey.stack.otherShop, 'open');
    const other = await call('get_return', { return_id: id });
    const nobody = await call('get_return', { return_id: 987_654_321 });
    expect(other).toEqual(nobody);
    expect(other.isError).toBe(true);
  });
});

describe('changing', () => {
  test('processes a return once, even when it is called repeatedly, with the user as actor', async () => {
    const ref = await journey.stack.fixture('two_currencies');
    const args = { return_id: ref.id, idempotency_key: randomUUID() };
    const first = await call('process_return', args);
    expect(first.data).toMatchObject({ return_id: ref.id, result: 'queued' });
    expect(await call('process_return', args)).toEqual(first);
    await untilState(journey, ref.id, 'closed');
    const ledger = await journey.stack.control<{ refunds: { calls: number }[] }>(
      'GET',
      `/commerce/orders?return_id=${ref.id}`,
    );
    expect(ledger.refunds).toMatchObject([{ calls: 1 }]);
    const again = await call('process_return', { return_id: ref.id });
    expect(again).toMatchObject({
      isError: true,
      text: expect.stringMatching(/cannot be processed/),
    });
    const { data } = await call('get_return_timeline', { return_id: ref.id });
    const queued = data.entries.find(
      ({ kind }: { kind: string }) => kind === 'return.processing.queued',
    );
    expect(queued).toMatchObject({ author_kind: 'user' });
    expect(JSON.stringify(data)).not.toMatch(/@/);
  });

  test('a flagged return is not processed; unflag, note and cancel change the return', async () => {
    const { id } = await journey.stack.fixture('open');
    const flagged = await call('flag_return', { return_id: id, reasons: ['Odd photo'] });
    expect(flagged.data.state).toBe('review');
    const refused = await call('process_return', { return_id: id });
    expect(refused.text).toMatch(/unflag_return/);
    expect((await call('unflag_return', { return_id: id })).data.state).toBe('open');
    const note = await call('add_return_note', { return_id: id, text: 'Rang them' });
    expect(note.isError).toBe(false);
    const args = { return_id: id, reason: 'Kept it', idempotency_key: randomUUID() };
    const cancelled = await call('cancel_return', args);
    expect(cancelled.data.state).toBe('cancelled');
    expect(await call('cancel_return', args)).toEqual(cancelled);
    const bare = await call('cancel_return', { return_id: id });
    expect(bare.text).toMatch(/cancelled. Nothing was changed/);
  });

  test('creates dispositions, a report, a cart and a webhook, and changes a destination', async () => {
    const { shop } = journey.stack;
    const { id, line_item_ids } = await journey.stack.fixture('open');
    const [line_item_id] = line_item_ids;
    const items = [{ line_item_id, disposition_outcome: 'recycle', note: 'Torn' }];
    const recorded = await call('record_dispositions', { items });
    expect(recorded.data.items).toMatchObject([{ line_item_id, disposition_outcome: 'recycle' }]);
    const report = await call('create_fraud_report', { return_id: id, category: 'item-is-worn' });
    expect(report.data.report).toMatchObject({ return_id: id, category: 'item-is-worn' });
    const destination_id = shop.fixtures.destinations.unlinked;
    const name = `Place ${randomUUID()}`;
    const moved = await call('update_destination', { destination_id, name });
    expect(moved.data.destination).toMatchObject({ id: destination_id, name });
    const cart = await call('create_cart', { items: [{ variant_id: 7, quantity: 2 }] });
    expect(cart.data.token).toMatch(/^[\w-]{43}$/);
    const webhook_id = shop.fixtures.webhooks[0]?.id;
    const off = await call('update_webhook', { webhook_id, status: 'inactive' });
    expect(off.data.webhook).toMatchObject({ id: webhook_id, status: 'inactive' });
    const evil = await call('update_webhook', { webhook_id, url: 'http://169.254.169.254/' });
    expect(evil.isError).toBe(true);
    await call('update_webhook', { webhook_id, status: 'active' });
  });

  test('a call is in the audit log before the change and after it', async () => {
    const { id } = await journey.stack.fixture('open');
    await call('add_return_note', { return_id: id, text: 'For the log' });
    const db = new pg.Client({ connectionString: journey.stack.file.database_url });
    await db.connect();
    const { rows } = await db.query<{ phase: string }>(
      `select detail->>'phase' as phase from gateway.audit_log
        where action = 'mcp.add_return_note' and subject = $1 order by id`,
      [String(id)],
    );
    await db.end();
    expect(rows.map(({ phase }) => phase)).toEqual(['asked', 'done']);
  });
});

describe('a repeated call whose result was lost', () => {
  let db: pg.Client;
  beforeAll(async () => {
    db = new pg.Client({ connectionString: journey.stack.file.database_url });
    await db.connect();
  });
  afterAll(() => db?.end());

  /** Makes it look as if the result was never stored, and the call was long ago. */
  const lose = (key: string) =>
    db.query(
      `update gateway.tool_calls set answer = null, started_at = now() - interval '10 minutes'
        where idempotency_key = $1`,
      [key],
    );

  test('returns the present state, and does not undo later changes', async () => {
    const { id } = await journey.stack.fixture('open');
    const key = randomUUID();
    const args = { return_id: id, reasons: ['Odd photo'], idempotency_key: key };
    const flagged = await call('flag_return', args);
    await lose(key);
    expect((await call('flag_return', args)).data).toEqual(flagged.data);
    await call('unflag_return', { return_id: id });
    await lose(key);
    expect((await call('flag_return', args)).data.state).toBe('open');
    expect((await call('get_return', { return_id: id })).data.return.state).toBe('open');
  });

  test('does not queue the processing again', async () => {
    const { id } = await journey.stack.fixture('open');
    const args = { return_id: id, idempotency_key: randomUUID() };
    expect((await call('process_return', args)).data.result).toBe('queued');
    await untilState(journey, id, 'closed');
    await lose(args.idempotency_key);
    expect((await call('process_return', args)).data.result).toBe('queued');
  });

  test('has no second effect on dispositions and destinations', async () => {
    const { line_item_ids } = await journey.stack.fixture('open');
    const items = line_item_ids.map((line_item_id) => ({ line_item_id, note: 'Torn' }));
    const record = { items, idempotency_key: randomUUID() };
    const recorded = await call('record_dispositions', record);
    await lose(record.idempotency_key);
    expect((await call('record_dispositions', record)).data).toEqual(recorded.data);
    const destination_id = journey.stack.shop.fixtures.destinations.unlinked;
    const address = { address1: '1 High Street', city: 'Leeds', country_code: 'gb' };
    const idempotency_key = randomUUID();
    const move = { destination_id, name: `Place ${randomUUID()}`, address, idempotency_key };
    const moved = await call('update_destination', move);
    await lose(idempotency_key);
    expect((await call('update_destination', move)).data).toEqual(moved.data);
    await call('update_destination', { destination_id, name: 'Another' });
    await lose(idempotency_key);
    expect((await call('update_destination', move)).data.destination.name).toBe('Another');
  });
});

describe('an outage', () => {
  test('of a service is reported without its cause, and is temporary', async () => {
    const { id } = firstOf(journey.stack.shop, 'open');
    await journey.stack.control('POST', '/services/returns/stop');
    const away = await call('get_return', { return_id: id });
    const write = await call('add_return_note', { return_id: id, text: 'x' });
    await journey.stack.control('POST', '/services/returns/start');
    expect(away).toMatchObject({
      isError: true,
      text: expect.stringMatching(/Try again in a few/),
    });
    expect(write.text).toMatch(/first read whether the change was made/);
    for (const { text } of [away, write]) expect(text).not.toMatch(/ECONN|UNAVAILABLE|127\.0/i);
    await until(async () => !(await call('get_return', { return_id: id })).isError);
  });
});
