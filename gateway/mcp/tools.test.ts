import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { FAKE, NOW } from '../../test/kit/gateway/fake-objects.ts';
import {
  type McpBench,
  type McpResponse,
  type SignedInMember,
  startMcpBench,
} from '../../test/kit/gateway/mcp.ts';
import { hasRight, permissionsFor } from '../actions/rights.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { createCatalogue } from './catalogue.ts';
import { TOOLS } from './tools.ts';

let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench();
});
afterAll(() => bench.stop());

describe('tools', () => {
  const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } });
  const outputs = new Map(
    createCatalogue().owner.map(({ name, outputSchema }) => [
      name,
      ajv.compile(Object(outputSchema)),
    ]),
  );
  const people = new Map<Role, SignedInMember>();
  const as = (role: Role) => people.get(role)?.token ?? '';
  const goodCallOf = (member: SignedInMember | undefined, name: string) =>
    member ? bench.goodCall(member, name) : {};
  beforeAll(async () => {
    for (const role of ROLES) people.set(role, await bench.member(role));
  });

  describe.each(ROLES)('%s', (role) => {
    test('gets a list of exactly the permitted tools', async () => {
      const { body } = await bench.rpc(as(role), 'tools/list');
      const names = body.result.tools.map(({ name }: { name: string }) => name);
      expect(names).toEqual(createCatalogue()[role].map(({ name }) => name));
    });

    test.each(TOOLS)('$name', async ({ name, right, output }) => {
      const isAllowed = hasRight(role, right);
      const result = await bench.call(as(role), name, await goodCallOf(people.get(role), name));
      if (isAllowed) {
        expect(result).toMatchObject({ isError: false });
        const validate = outputs.get(name);
        expect([validate?.(result.data), validate?.errors]).toEqual([true, null]);
        // The listed schema is shortened. The tool's own schema also rejects missing and unknown fields.
        expect(output.safeParse(result.data).error).toBeUndefined();
        expect(JSON.parse(result.text)).toEqual(result.data);
        return;
      }
      expect(result.isError).toBe(true);
      expect(result.text).toMatch(/^Unauthorized: /);
      for (const permission of permissionsFor(right)) expect(result.text).toContain(permission);
      expect(result.text).toContain('in the portal, under Team and roles');
      expect(result.data).toBeUndefined();
    });
  });

  const LONG = { line_item_id: 21, note: FAKE.oversizedNote };
  /** Each row: the problem, the tool, its arguments, and the text that the result must contain. */
  const INVALID: readonly (readonly [string, string, object, RegExp])[] = [
    [
      'an unknown argument',
      'search_returns',
      { colour: 1 },
      /colour is not an argument of this tool. Its arguments are query/,
    ],
    ['an unexpected argument', 'get_shop_context', { a: 1 }, /This tool has no arguments/],
    ['no argument', 'process_return', {}, /return_id is required/],
    ['a wrong type', 'process_return', { return_id: 'x' }, /return_id must be an integer from 1/],
    [
      'an unknown value',
      'search_returns',
      { states: ['lost'] },
      /states\[0\] must be one of open, review/,
    ],
    ['too many rows', 'list_webhooks', { limit: 51 }, /limit must be a whole number from 1 to 50/],
    [
      'an invalid time',
      'search_returns',
      { created_from: 'yesterday' },
      /created_from must be an RFC 3339/,
    ],
    [
      'too long a text',
      'create_fraud_report',
      { return_id: 11, comment: 'x'.repeat(513) },
      /comment must be at most 512/,
    ],
    [
      'no comment for other',
      'create_fraud_report',
      { return_id: 11, category: 'other' },
      /comment is required when/,
    ],
    [
      'an unknown field',
      'record_dispositions',
      { items: [{ line_item_id: 1, grade: 'a' }] },
      /items\[0\].grade is an unknown field/,
    ],
    [
      'thirty-one lines',
      'record_dispositions',
      { items: Array.from({ length: 31 }, (_, n) => ({ line_item_id: n + 1 })) },
      /at most 30/,
    ],
    [
      'a line that is in the list twice',
      'record_dispositions',
      { items: [{ line_item_id: 1 }, { line_item_id: 1 }] },
      /twice/,
    ],
    ['no reasons', 'flag_return', { return_id: 11 }, /reasons is required/],
    ['a required null', 'flag_return', { return_id: null }, /return_id is required/],
    [
      'two selectors',
      'get_return',
      { return_id: 11, order_name: '#1' },
      /exactly one of return_id/,
    ],
    ['no selector', 'get_return', {}, /exactly one of return_id/],
    ['no change', 'update_webhook', { webhook_id: 41 }, /at least one of topic/],
    ['an invalid cursor', 'search_returns', { cursor: 'x' }, /^cursor must be a cursor returned/],
    [
      'an invalid cursor of a list',
      'list_destinations',
      { cursor: 'x' },
      /cursor must be the next_cursor/,
    ],
    [
      'an absent return',
      'get_return',
      { return_id: 99 },
      /no such return. Find it with search_returns/,
    ],
    ['an absent return to note', 'add_return_note', { return_id: 99, text: 'x' }, /no such return/],
    [
      'a wrong state',
      'cancel_return',
      { return_id: 13 },
      /^The return is closed. Nothing was changed/,
    ],
    [
      'a wrong number',
      'process_return',
      { return_id: 11, details: { ref: { digits: 1 } } },
      /^.*details\.ref must be a string, a number, true, false or null/,
    ],
    ['a flagged return', 'process_return', { return_id: 12 }, /cannot be processed.*unflag_return/],
    ['a closed return', 'process_return', { return_id: 13 }, /cannot be processed.*get_return/],
    [
      'an unknown line',
      'record_dispositions',
      { items: [{ line_item_id: 22 }] },
      /^items\[0\]\.line_item_id must be the id of an existing line item.*Nothing was recorded/,
    ],
    ['a note too large', 'record_dispositions', { items: [LONG] }, /24 MiB.*Nothing was recorded/],
    ['a second report', 'create_fraud_report', { return_id: 14 }, /get_fraud_report reads it/],
    ['no report', 'get_fraud_report', { return_id: 11 }, /has no fraud report/],
    [
      'the report of an absent return',
      'get_fraud_report',
      { return_id: 99 },
      /with search_returns/,
    ],
    [
      'an absent destination',
      'update_destination',
      { destination_id: 99, name: 'x' },
      /list_destinations/,
    ],
    ['an absent webhook', 'update_webhook', { webhook_id: 99, status: 'active' }, /list_webhooks/],
    [
      'a rejected URL',
      'update_webhook',
      { webhook_id: 41, url: 'http://x' },
      /absolute https address. Ask/,
    ],
    [
      'an absent delivery',
      'replay_webhook_delivery',
      { delivery_id: 'msg_none' },
      /list_webhook_deliveries/,
    ],
    ['an absent assistant', 'disconnect_assistant', { assistant_id: 'none' }, /list_assistants/],
  ];

  describe('failures that the assistant can act on', () => {
    test.each(INVALID)('%s: %s', async (_, name, args, text) => {
      const result = await bench.call(as('owner'), name, args);
      expect(result).toMatchObject({ isError: true, text: expect.stringMatching(text) });
      expect(result.text).not.toMatch(
        /\[(?:not_found|invalid_argument|failed_precondition)\]|rpc|grpc/i,
      );
    });

    test('an unexpected error: the text has the request id, but not the cause', async () => {
      Object.assign(bench.services.returns, {
        searchReturns: () => {
          throw new Error('connect ECONNREFUSED 10.0.0.7:9001');
        },
      });
      const result = await bench.call(as('owner'), 'search_returns');
      expect(result.text).toMatch(/^Something went wrong on our side.*request id/);
      expect(result.text).not.toMatch(/ECONNREFUSED|10\.0/);
      bench.resetServices();
    });
  });

  test('numbers in the details of processing keep their digits', async () => {
    let received: { details?: Record<string, { value: unknown }> } = {};
    Object.assign(bench.services.returns, {
      processReturn: (request: typeof received) => {
        received = request;
        return { result: { case: 'queued', value: {} } };
      },
    });
    const sent = ['19.90', '0.30000000000000000000001', '12345678901234567890', '-1e2', '7'];
    const details = sent.map((number, at) => `"n${at}":${number}`).join();
    const args = `{"return_id":11.0,"details":{${details}},"idempotency_key":"digits"}`;
    const params = `{"name":"process_return","arguments":${args}}`;
    const raw = `{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":${params}}`;
    const response = await bench.post({ token: as('owner'), raw });
    bench.resetServices();
    expect(response.body).toMatchObject({
      id: 1,
      result: { structuredContent: { return_id: 11 } },
    });
    expect(Object.values(received.details ?? {}).map(({ value }) => value)).toEqual(
      sent.map((value) => ({ case: 'number', value })),
    );
    const huge = raw.replace('19.90', '1e999');
    expect((await bench.post({ token: as('owner'), raw: huge })).text).toMatch(
      /details\.n0 must be/,
    );
  });

  describe('results', () => {
    test('mask e-mail addresses in lists, and show the address of one return', async () => {
      const found = await bench.call(as('owner'), 'search_returns', { detail: 'full' });
      expect(found.text).not.toContain('ada@example.com');
      expect(found.data.returns[0].customer_email_masked).toBe('a***@example.com');
      const one = await bench.call(as('owner'), 'get_return', {
        order_name: '#1001',
        detail: 'full',
      });
      expect(one.data.untrusted_details).toMatchObject({
        id: 11,
        customer_email: 'ada@example.com',
      });
    });

    test.each(ROLES)('show %s only the permitted parts of a fraud report', async (role) => {
      const actor = { kind: Actor_Kind.USER, id: '77', name: 'Grace' };
      const facts = { report_id: '501', category: 'item-is-worn' };
      const text = 'A fraud report was created';
      const about = { returnId: FAKE.returns.open, kind: 'fraud_report.created', text };
      const entry = { id: 9n, ...about, occurredAt: NOW, actor, author: 'Grace', facts };
      Object.assign(bench.services.returns, {
        getTimeline: () => ({ entries: [entry], nextCursor: '' }),
      });
      const args = { return_id: Number(FAKE.returns.open), detail: 'full' };
      const result = await bench.call(as(role), 'get_return_timeline', args);
      bench.resetServices();
      const mayRead = hasRight(role, 'seeFraudReports');
      expect(result.data.entries).toMatchObject([
        { id: 9, kind: 'fraud_report.created', untrusted_data: { text } },
      ]);
      for (const part of ['Grace', '77', '501', 'item-is-worn']) {
        expect([part, result.text.includes(part)]).toEqual([part, mayRead]);
      }
    });

    test('have names and ids of destinations', async () => {
      const found = await bench.call(as('owner'), 'search_returns');
      expect(found.data.returns[0]).toMatchObject({
        destination_id: 31,
        destination_name: 'Leeds',
      });
    });

    test('have the stages of versions on the date of the version calendar', async () => {
      const later = await bench.gateway.listenAt(new Date('2027-08-01T00:00:00Z'));
      const params = { name: 'get_shop_context' };
      const response = await fetch(`${later.url}/mcp`, {
        method: 'POST',
        headers: { authorization: `Bearer ${as('owner')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      });
      const stage = { version: '2026-07', stage: 'deprecated' };
      expect(await response.json()).toMatchObject({
        result: { structuredContent: { api_versions: [stage, { version: '2026-10' }] } },
      });
      await later.stop();
    });

    test('come in pages', async () => {
      const seen: number[] = [];
      let cursor: string | null = null;
      do {
        const page = { limit: 1, ...(cursor && { cursor }) };
        const { data } = await bench.call(as('owner'), 'list_destinations', page);
        seen.push(...data.destinations.map(({ id }: { id: number }) => id));
        cursor = data.next_cursor;
      } while (cursor);
      expect(seen).toEqual([31, 32]);
    });

    test('never contain the secrets of deliveries', async () => {
      const { text } = await bench.call(as('owner'), 'list_webhook_deliveries', { detail: 'full' });
      expect(text).not.toMatch(/v1,secret|"secret"/);
      expect(text).toContain('what the receiver said');
    });
  });
});

describe('missing goods', () => {
  let token: string;
  beforeAll(async () => {
    token = (await bench.member('owner')).token;
  });

  test('process_return and record_dispositions tell the user which goods are paid although they are missing', async () => {
    Object.assign(bench.services.returns, {
      processReturn: () => ({
        result: { case: 'queued', value: {} },
        missingLineItemIds: Array.from({ length: 11 }, (_, n) => BigInt(n + 1)),
      }),
    });
    const processed = await bench.call(token, 'process_return', { return_id: 11 });
    expect(processed.data?.next_step).toContain(
      'Tell the user: line items 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 1 more are recorded as missing',
    );
    bench.resetServices();
    const recorded = async (disposition_outcome: string) => {
      const items = [{ line_item_id: Number(FAKE.lineItem), disposition_outcome }];
      return (await bench.call(token, 'record_dispositions', { items })).data?.next_step;
    };
    expect(await recorded('missing')).toContain('line item 21 is recorded as missing');
    expect(await recorded('donate')).toBeUndefined();
  });
});

describe('the MCP server', () => {
  let live: SignedInMember;
  let sandbox: SignedInMember;

  beforeAll(async () => {
    live = await bench.member('owner');
    sandbox = await bench.member('owner', await bench.newShop({ sandbox: true }));
  });

  const mark = ({ headers }: McpResponse) => headers['x-service-environment'];
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

  test.each<[number, Parameters<McpBench['post']>[0]]>([
    [200, { body: list }],
    [200, { body: { ...list, method: 'nothing' } }],
    [400, { raw: '{' }],
    [204, { method: 'OPTIONS' }],
    [405, { method: 'GET' }],
  ])('says sandbox to users of a sandbox only, in %i', async (status, sent) => {
    const inSandbox = await bench.post({ ...sent, token: sandbox.token });
    expect([inSandbox.status, mark(inSandbox)]).toEqual([status, 'sandbox']);
    const inLive = await bench.post({ ...sent, token: live.token });
    expect(inLive.status).toBe(status);
    expect(inLive.headers).not.toHaveProperty('x-service-environment');
  });

  test('says it for tool calls, and in the next response after a switch', async () => {
    const call = (member: SignedInMember) =>
      bench.rpc(member.token, 'tools/call', { name: 'search_returns', arguments: {} });
    expect(mark(await call(sandbox))).toBe('sandbox');
    const shopId = await bench.newShop();
    const member = await bench.member('owner', shopId);
    expect(mark(await call(member))).toBeUndefined();
    await bench.database.pool.query('update shops set sandbox = true where id = $1', [shopId]);
    expect(mark(await call(member))).toBe('sandbox');
  });

  test('says nothing without a valid token', async () => {
    expect(mark(await bench.post({ token: `${sandbox.token}x`, body: list }))).toBeUndefined();
  });
});
