import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { request } from 'undici';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { RPC_SERVICES } from '../../services/platform/rpc/callers.ts';
import { auditLogOf } from '../../test/kit/gateway/audit-log.ts';
import { FAKE, sampleReturn, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS, SAMPLE_OBJECTS } from '../../test/kit/gateway/tool-calls.ts';
import { until } from '../../test/kit/until.ts';
import { TOOLS } from './tools.ts';

let bench: McpBench;
let owner: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  owner = await bench.member('owner');
});
afterAll(() => bench.stop());

describe('abandoned calls', () => {
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
  function call(name: string, isModern: boolean) {
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
});

describe('lost calls', () => {
  afterEach(() => bench.resetServices());

  /** The RPCs that only read, such as `returns.findReturn`. */
  const READS = new Set(
    Object.entries(RPC_SERVICES).flatMap(([name, { methods }]) =>
      methods
        .filter(({ idempotency }) => idempotency === Idempotency.NO_SIDE_EFFECTS)
        .map(({ localName }) => `${name}.${localName}`),
    ),
  );

  let last = 0;

  /** Wraps every RPC of the fake services. */
  function wrapRpcs(
    around: (name: string, next: (...parts: unknown[]) => unknown, request: Sent) => unknown,
  ): void {
    for (const [service, rpcs] of Object.entries(bench.services)) {
      for (const rpc of Object.keys(rpcs)) {
        const next: (...parts: unknown[]) => unknown = Reflect.get(rpcs, rpc);
        Reflect.set(rpcs, rpc, (...parts: [Sent, ...unknown[]]) =>
          around(`${service}.${rpc}`, () => next(...parts), parts[0]),
        );
      }
    }
  }

  interface Sent {
    readonly idempotencyKey?: string;
  }

  /** Makes the RPCs with a key fail while `isUnavailable`, and collects the keys that they receive. */
  function failing() {
    const received = { isUnavailable: true, keys: [] as string[] };
    wrapRpcs((_name, next, { idempotencyKey = '' }) => {
      if (idempotencyKey === '') return next();
      received.keys.push(idempotencyKey);
      if (received.isUnavailable) throw new ConnectError('gone', Code.Unavailable);
      return next();
    });
    return received;
  }

  /** A tool that writes without a key repeats itself only when a second write changes nothing. */
  const WRITES = TOOLS.filter(({ hints }) => !hints.readOnly.is);

  describe.each(WRITES)('$name', ({ name: tool, hints }) => {
    test('whose response was lost can be repeated immediately: the service gets the same key, and the output is stored', async () => {
      const args = { ...(await bench.goodCall(owner, tool)), idempotency_key: `lost-${++last}` };
      const received = failing();
      const first = await bench.call(owner.token, tool, args);
      if (received.keys.length === 0) return expect(hints.idempotent.is).toBe(true);
      expect(first).toMatchObject({
        isError: true,
        text: expect.stringMatching(/same idempotency/),
      });
      received.isUnavailable = false;
      const again = await bench.call(owner.token, tool, args);
      expect([again.isError, again.text]).toEqual([false, expect.any(String)]);
      expect(received.keys.length).toBeGreaterThan(1);
      expect([...new Set(received.keys)]).toEqual([expect.stringMatching(/./)]);
      const calls = received.keys.length;
      expect(await bench.call(owner.token, tool, args)).toEqual(again);
      expect(received.keys).toHaveLength(calls);
    });

    test('gets another key for another call', async () => {
      const received = failing();
      received.isUnavailable = false;
      for (let n = 0; n < 2; n += 1) {
        await bench.call(owner.token, tool, await bench.goodCall(owner, tool));
      }
      expect(new Set(received.keys).size).toBe(received.keys.length === 0 ? 0 : 2);
    });
  });

  // Assistants call a tool that only reads without asking their user.
  test.each(TOOLS.filter(({ hints }) => hints.readOnly.is))(
    '$name only reads',
    async ({ name, sample, costly }) => {
      const called: string[] = [];
      wrapRpcs((rpc, next) => {
        called.push(rpc);
        return next();
      });
      for (const args of [sample, costly].map((of) => of(SAMPLE_OBJECTS)))
        await bench.call(owner.token, name, args);
      expect(called.filter((rpc) => !READS.has(rpc))).toEqual([]);
    },
  );

  test('another call cannot use the key of a lost call, and the lost call can still be repeated', async () => {
    const idempotency_key = `lost-${++last}`;
    const received = failing();
    const args = { ...GOOD_CALLS.flag_return, idempotency_key };
    await bench.call(owner.token, 'flag_return', args);
    received.isUnavailable = false;
    const calls = received.keys.length;
    for (const [tool, other] of [
      ['flag_return', { ...args, comment: 'Another comment' }],
      ['unflag_return', { ...GOOD_CALLS.unflag_return, idempotency_key }],
    ] as const) {
      const rejected = await bench.call(owner.token, tool, other);
      expect(rejected).toMatchObject({
        isError: true,
        text: expect.stringMatching(/another call/),
      });
    }
    expect(received.keys).toHaveLength(calls);
    expect((await bench.call(owner.token, 'flag_return', args)).isError).toBe(false);
  });

  test('a repeat of a call whose process died sends the same key to the service', async () => {
    const args = { ...GOOD_CALLS.flag_return, idempotency_key: `lost-${++last}` };
    const received = failing();
    await bench.call(owner.token, 'flag_return', args);
    // The row looks as if the process had died during the call.
    const setAge = (age: string) =>
      bench.database.pool.query(
        'update tool_calls set started_at = now() - $2::interval where idempotency_key = $1',
        [args.idempotency_key, age],
      );
    await setAge('1 second');
    received.isUnavailable = false;
    const waiting = await bench.call(owner.token, 'flag_return', args);
    expect(waiting).toMatchObject({
      isError: true,
      text: expect.stringMatching(/after \d+ seconds/),
    });
    await setAge('10 minutes');
    expect((await bench.call(owner.token, 'flag_return', args)).isError).toBe(false);
    expect(new Set(received.keys).size).toBe(1);
  });
});

describe('large results', () => {
  const MIB = 1024 * 1024;
  const WHOLE = { name: 'get_return', arguments: { return_id: 11, detail: 'full' } };

  let bench: McpBench | undefined;
  afterEach(() => bench?.stop());

  /** A gateway, and a user whose return has a shopper with this name. */
  async function withName(name: string, o: Parameters<typeof startMcpBench>[0] = {}) {
    bench = await startMcpBench(o);
    const customer = create(CustomerSchema, { firstName: name });
    bench.services.returns.findReturn = () => ({ return: { ...sampleReturn(), customer } });
    return { bench, token: (await bench.member('owner')).token };
  }

  test('a result beyond the memory of the shop gets 429 with the code of rate limits and the id', async () => {
    const { bench, token } = await withName('x'.repeat(3 * MIB), {
      responseBudget: { shop: 4 * MIB, caller: 4 * MIB },
    });
    const body = { jsonrpc: '2.0', id: 'seven', method: 'tools/call', params: WHOLE };
    const rejected = await bench.post({ token, body });
    expect(rejected).toMatchObject({
      status: 429,
      headers: { 'retry-after': expect.stringMatching(/^[1-9]\d*$/) },
      body: { jsonrpc: '2.0', id: 'seven', error: { code: 42_900 } },
    });
  });

  test('a result that is too large for any response is an error that says what to do', async () => {
    // Each quote has two bytes in the object, and four in the text of the result.
    const { bench, token } = await withName('"'.repeat(10 * MIB));
    const result = await bench.call(token, WHOLE.name, WHOLE.arguments);
    expect(result).toMatchObject({ isError: true, data: undefined });
    expect(result.text).toMatch(/larger than 56 MiB.*detail summary.*REST API/);
  });

  test('the largest return of plain text is sent', async () => {
    const { bench, token } = await withName('x'.repeat(24 * MIB));
    const result = await bench.call(token, WHOLE.name, WHOLE.arguments);
    expect(result.data.untrusted_details.customer_first_name).toHaveLength(24 * MIB);
  });
});

describe('the trace of a call', () => {
  const OUTER = '0af7651916cd43dd8448eb211c80319c';
  const INNER = '11f7651916cd43dd8448eb211c803111';
  const traceparent = (trace: string) => `00-${trace}-b7ad6b7169203331-01`;
  let received: string | null = null;
  beforeAll(async () => {
    Object.assign(bench.services.returns, {
      searchReturns: (_request: unknown, context: HandlerContext) => {
        received = context.requestHeader.get('traceparent');
        return { returns: [], nextCursor: '', total: 0 };
      },
    });
  });

  async function search(_meta: object): Promise<string | null> {
    const params = { name: 'search_returns', arguments: {}, _meta };
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    const headers = { traceparent: traceparent(OUTER) };
    const response = await bench.post({ token: owner.token, headers, body });
    expect(response.body.result.isError).toBeUndefined();
    return received;
  }

  test('is the trace of the message, also in the services', async () => {
    expect(await search({ traceparent: traceparent(INNER) })).toContain(INNER);
  });

  test.each([
    {},
    { traceparent: 'x' },
    { traceparent: 7 },
    { traceparent: traceparent('0'.repeat(32)) },
  ])('is the trace of the HTTP request for _meta %j', async (meta) => {
    expect(await search(meta)).toContain(OUTER);
  });
});

test('a write of an assistant is in the audit log with user, client, address and request', async () => {
  const { token, userId } = await bench.member('owner');
  const requestId = randomUUID();
  const params = { name: 'update_webhook', arguments: { webhook_id: 41, status: 'inactive' } };
  const { body } = await bench.post({
    token,
    headers: { 'x-request-id': requestId, 'x-forwarded-for': '2001:db8:1:2::9' },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
  });
  expect(body.result.isError).not.toBe(true);
  const rows = await auditLogOf(bench.database.pool, { request_id: requestId });
  expect(rows).toMatchObject([
    {
      actor_kind: 'user',
      actor_id: String(userId),
      source: '2001:db8:1:2::/64',
      action: 'mcp.update_webhook',
      subject: String(FAKE.webhook),
      detail: { phase: 'done', client_id: 'rms-mcp' },
    },
  ]);
});

test('the entry says what was changed', async () => {
  const { token } = await bench.member('owner');
  bench.services.webhooks.updateSubscription = () => ({
    subscription: { ...sampleSubscription(), status: SubscriptionStatus.INACTIVE },
    previous: sampleSubscription(),
  });
  const requestId = randomUUID();
  const params = { name: 'update_webhook', arguments: { webhook_id: 41, status: 'inactive' } };
  await bench.post({
    token,
    headers: { 'x-request-id': requestId },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
  });
  expect(await auditLogOf(bench.database.pool, { request_id: requestId })).toMatchObject([
    { detail: { changes: [{ field: 'status', from: 'active', to: 'inactive' }] } },
  ]);
});

test('a call does not fail when the name of its program cannot be stored', async () => {
  const { token, userId } = await bench.member('owner');
  const { pool, migratorUrl } = bench.database;
  const migrator = new pg.Client({ connectionString: migratorUrl });
  await migrator.connect();
  await pool.query("update oauth_grants set app = '127.0.0.1:5' where user_id = $1", [userId]);
  await migrator.query(
    "alter table gateway.oauth_grants add constraint no_name check (self_name is distinct from 'Unlucky')",
  );
  const { status, body } = await bench.rpc(token, 'initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'Unlucky', version: '1' },
  });
  await migrator.query('alter table gateway.oauth_grants drop constraint no_name');
  await migrator.end();
  expect([status, body.result?.protocolVersion]).toEqual([200, '2025-11-25']);
});
