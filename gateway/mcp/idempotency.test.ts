import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SubscriptionStatus } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { auditLogOf } from '../../test/kit/gateway/audit-log.ts';
import { FAKE, sampleReturn, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { GOOD_CALLS } from '../../test/kit/gateway/tool-calls.ts';
import { claimCall, finishCall, hashOfRequest, purgeCalls, releaseCall } from './idempotency.ts';

let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench();
});
afterAll(() => bench.stop());

describe('calls with a key', () => {
  let agent: SignedInMember;
  beforeAll(async () => {
    agent = await bench.member('returns_agent');
  });

  const returnId = Number(FAKE.returns.open);
  let last = 0;
  const newKey = () => `key-${++last}`;

  const auditOf = ({ shopId, userId }: SignedInMember) =>
    auditLogOf(bench.database.pool, { shop_id: shopId, actor_id: String(userId) });

  /** Counts the calls of one RPC. `behaviour` replaces what it does. */
  function counting(name: 'cancelReturn' | 'addNote' | 'processReturn', behaviour?: () => unknown) {
    const { returns } = bench.services;
    const before = returns[name];
    const counter = { calls: 0 };
    Object.assign(returns, {
      [name]: (request: never, context: never) => {
        counter.calls += 1;
        return behaviour ? behaviour() : before?.(request, context);
      },
    });
    return counter;
  }

  describe('a call with an idempotency key', () => {
    test('is executed once, and a repeat gets the same result', async () => {
      const counter = counting('addNote');
      const args = { return_id: returnId, text: 'Called', idempotency_key: newKey() };
      const first = await bench.call(agent.token, 'add_return_note', args);
      const again = await bench.call(agent.token, 'add_return_note', {
        idempotency_key: args.idempotency_key,
        text: 'Called',
        return_id: returnId,
      });
      expect(first.isError).toBe(false);
      expect(again).toEqual(first);
      expect(counter.calls).toBe(1);
      bench.resetServices();
    });

    test('may be repeated with null for an absent field, and with the same time in another form', async () => {
      const note = { return_id: returnId, idempotency_key: newKey() };
      const first = await bench.call(agent.token, 'unflag_return', note);
      expect(first.isError).toBe(false);
      const nulls = { ...note, reasons: null, comment: null };
      expect(await bench.call(agent.token, 'unflag_return', nulls)).toEqual(first);
      const idempotency_key = newKey();
      const record = (inspected_at: string) =>
        bench.call(agent.token, 'record_dispositions', {
          items: [{ line_item_id: Number(FAKE.lineItem), inspected_at }],
          idempotency_key,
        });
      const recorded = await record('2026-11-20T10:00:00Z');
      expect(recorded.isError).toBe(false);
      expect(await record('2026-11-20T12:00:00+02:00')).toEqual(recorded);
    });

    test('is executed once by ten concurrent calls', async () => {
      const counter = counting('addNote');
      const args = { return_id: returnId, text: 'Ten', idempotency_key: newKey() };
      const calls = Array.from({ length: 10 }, () =>
        bench.call(agent.token, 'add_return_note', args),
      );
      const results = await Promise.all(calls);
      expect(counter.calls).toBe(1);
      for (const { isError, text } of results) {
        if (isError) expect(text).toMatch(/is still running/);
      }
      expect(results.some(({ isError }) => !isError)).toBe(true);
      bench.resetServices();
    });

    test('is rejected with other arguments or another tool', async () => {
      const idempotency_key = newKey();
      const note = { return_id: returnId, text: 'One', idempotency_key };
      await bench.call(agent.token, 'add_return_note', note);
      const other = await bench.call(agent.token, 'add_return_note', { ...note, text: 'Two' });
      const tool = await bench.call(agent.token, 'unflag_return', {
        return_id: returnId,
        idempotency_key,
      });
      for (const { isError, text } of [other, tool]) {
        expect({ isError, text }).toMatchObject({
          isError: true,
          text: expect.stringMatching(/was used for another call/),
        });
      }
    });

    test('may have the same key as a call of another user', async () => {
      const counter = counting('addNote');
      const other = await bench.member('returns_agent');
      const args = { return_id: returnId, text: 'Same', idempotency_key: newKey() };
      await bench.call(agent.token, 'add_return_note', args);
      await bench.call(other.token, 'add_return_note', args);
      expect(counter.calls).toBe(2);
      bench.resetServices();
    });

    test('can be repeated after a rejection', async () => {
      const args = { return_id: Number(FAKE.returns.closed), idempotency_key: newKey() };
      expect((await bench.call(agent.token, 'cancel_return', args)).isError).toBe(true);
      const counter = counting('cancelReturn', () => ({
        return: { ...sampleReturn(), state: ReturnState.CANCELLED },
      }));
      expect((await bench.call(agent.token, 'cancel_return', args)).isError).toBe(false);
      expect(counter.calls).toBe(1);
      bench.resetServices();
    });

    test('that a repeat has taken over changes nothing more', async () => {
      const { pool } = bench.database;
      const keyed = {
        shopId: agent.shopId,
        userId: agent.userId,
        key: newKey(),
        tool: 'add_return_note',
        requestHash: hashOfRequest({ text: 'Slow' }),
      };
      const claim = async () => {
        const claimed = await claimCall(pool, keyed);
        if (claimed.kind !== 'claimed') throw new Error(claimed.kind);
        return { ...keyed, ...claimed };
      };
      const first = await claim();
      await pool.query(
        `update tool_calls set started_at = now() - interval '1 hour' where idempotency_key = $1`,
        [keyed.key],
      );
      const second = await claim();
      expect(second.callId).toBe(first.callId);
      const output = { content: [{ type: 'text' as const, text: 'done' }] };
      await finishCall(pool, first, output);
      await releaseCall(pool, first);
      expect((await claimCall(pool, keyed)).kind).toBe('running');
      await finishCall(pool, second, output);
      expect(await claimCall(pool, keyed)).toEqual({ kind: 'done', output });
    });

    test('is deleted after a day', async () => {
      const args = { return_id: returnId, text: 'Old', idempotency_key: newKey() };
      await bench.call(agent.token, 'add_return_note', args);
      const { pool } = bench.database;
      await pool.query(
        `update tool_calls set started_at = now() - interval '25 hours' where idempotency_key = $1`,
        [args.idempotency_key],
      );
      await purgeCalls(pool);
      const counter = counting('addNote');
      await bench.call(agent.token, 'add_return_note', args);
      expect(counter.calls).toBe(1);
      bench.resetServices();
    });
  });

  describe('the audit log', () => {
    test('has one entry for every change, with the user as actor', async () => {
      const member = await bench.member('returns_agent');
      await bench.call(member.token, 'flag_return', { return_id: returnId, reasons: ['Odd'] });
      const rows = await auditOf(member);
      for (const row of rows) {
        expect(row).toMatchObject({
          action: 'mcp.flag_return',
          subject: String(returnId),
          actor_kind: 'user',
          actor_id: String(member.userId),
          actor_name: 'Ada',
          source: '127.0.0.1',
          detail: { client_id: 'rms-mcp', role: 'returns_agent' },
        });
      }
      expect(rows.map(({ detail }) => detail.phase)).toEqual(['done']);
      expect(JSON.stringify(rows.map(({ detail }) => detail))).not.toContain(member.email);
    });

    test('shows that a change was rejected, or that its outcome is unknown', async () => {
      const member = await bench.member('returns_agent');
      await bench.call(member.token, 'cancel_return', { return_id: Number(FAKE.returns.closed) });
      counting('processReturn', () => {
        throw new ConnectError('gone', Code.Unavailable);
      });
      await bench.call(member.token, 'process_return', { return_id: returnId });
      bench.resetServices();
      const phases = (await auditOf(member)).map(({ detail }) => detail.phase);
      expect(phases).toEqual(['refused', 'unknown']);
    });

    test('has no entries for reads, for missing permissions or for invalid arguments', async () => {
      const member = await bench.member('analyst');
      await bench.call(member.token, 'get_return', { return_id: returnId });
      await bench.call(member.token, 'cancel_return', { return_id: returnId });
      const agent2 = await bench.member('returns_agent');
      await bench.call(agent2.token, 'cancel_return', {});
      expect([...(await auditOf(member)), ...(await auditOf(agent2))]).toEqual([]);
    });

    test('is written before the change: if this fails, nothing is changed', async () => {
      const member = await bench.member('returns_agent');
      const counter = counting('addNote');
      const name = 'audit_unavailable';
      const migrator = new pg.Client({ connectionString: bench.database.migratorUrl });
      await migrator.connect();
      await migrator.query(
        `alter table gateway.open_calls add constraint ${name} check (actor_id <> '${member.userId}')`,
      );
      const result = await bench.call(member.token, 'add_return_note', {
        return_id: returnId,
        text: 'x',
      });
      await migrator.query(`alter table gateway.open_calls drop constraint ${name}`);
      await migrator.end();
      expect(result.isError).toBe(true);
      expect(counter.calls).toBe(0);
      bench.resetServices();
    });
  });

  describe('the actor', () => {
    test('is the user, with id and name, and processing has the source "api"', async () => {
      let request: { actor?: { id: string; name: string; kind: number }; source?: string } = {};
      Object.assign(bench.services.returns, {
        processReturn: (received: typeof request) => {
          request = received;
          return { result: { case: 'queued', value: {} } };
        },
      });
      await bench.call(agent.token, 'process_return', { return_id: returnId });
      expect(request).toMatchObject({
        source: 'api',
        actor: { kind: 1, id: String(agent.userId), name: 'Ada' },
      });
      bench.resetServices();
    });
  });
});

describe('tools for webhooks', () => {
  let developer: SignedInMember;
  beforeAll(async () => {
    developer = await bench.member('developer');
  });
  afterEach(() => bench.resetServices());

  const call = (tool: string, args = GOOD_CALLS[tool]) => bench.call(developer.token, tool, args);

  describe('signing secrets', () => {
    test.each(['create_webhook', 'rotate_webhook_secret'] as const)(
      'are never in a result of %s, which says where a person reads them',
      async (tool) => {
        const result = await call(tool, { ...GOOD_CALLS[tool], idempotency_key: `secret-${tool}` });
        expect(result.isError).toBe(false);
        expect(JSON.stringify(result)).not.toContain('whsec_');
        expect(JSON.stringify(result)).toContain(`GET /api/webhooks/${FAKE.webhook}/secret`);
        const { rows } = await bench.database.pool.query<{ stored: string }>(
          'select t::text as stored from tool_calls t',
        );
        expect(rows.map(({ stored }) => stored).join()).not.toContain('whsec_');
      },
    );
  });

  test('a webhook that never delivers is created with a warning', async () => {
    const args = { topic: 'label', trigger: 'return.closed', url: 'https://hooks.example.com/' };
    const { data } = await call('create_webhook', args);
    expect(data).toMatchObject({
      webhook_id: Number(FAKE.webhook),
      delivers: false,
      warnings: [expect.stringContaining('never delivers return.closed')],
    });
  });

  test('no tool sets or shows the description of a webhook, which the portal has', async () => {
    const subscription = { ...sampleSubscription(), description: 'Warehouse' };
    const asked: unknown[] = [];
    Object.assign(bench.services.webhooks, {
      listSubscriptions: () => ({ subscriptions: [subscription] }),
      updateSubscription: ({ description }: { readonly description?: string }) => {
        asked.push(description);
        return { subscription };
      },
    });
    const results = [await call('list_webhooks', {}), await call('update_webhook')];
    expect(results.map(({ isError }) => isError)).toEqual([false, false]);
    expect(JSON.stringify(results.map(({ data }) => data))).not.toContain('Warehouse');
    expect(asked).toEqual([undefined]);
  });

  describe('the list of webhooks', () => {
    const list = async (subscription: object) => {
      Object.assign(bench.services.webhooks, {
        listSubscriptions: () => ({
          subscriptions: [{ ...sampleSubscription(), ...subscription }],
        }),
      });
      const { data } = await call('list_webhooks', {});
      return data.webhooks[0];
    };

    test('says how the deliveries of each fare, as REST does, and leaves out what has no value', async () => {
      const healthy = await list({});
      expect(healthy).toMatchObject({
        health: 'healthy',
        success_rate_24h: 0.6666,
        delivers: true,
        oldest_waiting_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      });
      expect(Object.keys(healthy)).not.toContain('inactive_reason');
      expect(await list({ failures: 4 })).toMatchObject({ health: 'failing', failures: 4 });
      const { health, createdAt } = sampleSubscription();
      const paused = await list({
        health: { ...health, counted: 0, delivered: 0, pausedSince: createdAt },
      });
      expect(paused.health).toBe('paused');
      expect(paused).not.toHaveProperty('success_rate_24h');
    });

    test('says why one is inactive', async () => {
      const inactiveReason = 'answered 410';
      expect(await list({ status: SubscriptionStatus.INACTIVE, inactiveReason })).toMatchObject({
        status: 'inactive',
        health: 'inactive',
        inactive_reason: inactiveReason,
      });
    });
  });

  describe('a replay by filter', () => {
    test('is previewed, started and read with its progress', async () => {
      const args = { webhook_id: Number(FAKE.webhook), from: '2026-11-20T10:00:00Z' };
      const preview = await call('preview_webhook_replay', args);
      expect(preview.data).toMatchObject({ kind: 'replay', matched: 5, replayable: 3 });
      const started = await call('start_webhook_replay', args);
      const running = { id: Number(FAKE.replay), state: 'running', total: 3, done: 1 };
      expect(started.data).toMatchObject({ replay: running });
      const listed = await call('list_webhook_replays', {});
      expect(listed.data).toMatchObject({ replays: [running], next_cursor: null });
    });

    test.each([
      [{}, 'from is required when kind is replay.'],
      [{ kind: 'backfill' }, 'webhook_id is required when kind is backfill.'],
      [
        { kind: 'backfill', webhook_id: 41, return_id: 11 },
        'return_id must be absent when kind is backfill.',
      ],
      [{ from: '2026-11-20T10:00:00Z', to: '2026-11-20T10:00:00Z' }, 'to must be after from.'],
    ])('with %j is rejected', async (args, problem) => {
      for (const tool of ['preview_webhook_replay', 'start_webhook_replay'] as const) {
        const result = await call(tool, args);
        expect([result.isError, result.text]).toEqual([true, `Invalid arguments: ${problem}`]);
      }
    });

    test.each<[argument: string, value: unknown]>([
      ['webhook_id', ''],
      ['webhook_id', ' '],
      ['webhook_id', 'null'],
      ['return_id', ''],
      ['trigger', ''],
      ['states', []],
      ['states', '[]'],
      ['states', ''],
      ['to', 'null'],
    ])('does not send everything because %s is %j', async (argument, value) => {
      const started: unknown[] = [];
      Object.assign(bench.services.webhooks, {
        startReplay: (asked: unknown) => started.push(asked),
      });
      const args = { from: '2026-11-20T10:00:00Z', [argument]: value };
      for (const tool of ['preview_webhook_replay', 'start_webhook_replay'] as const) {
        const result = await call(tool, args);
        expect([result.isError, result.text]).toEqual([
          true,
          `Invalid arguments: ${argument} must not be empty. To call this tool without this restriction, omit it.`,
        ]);
      }
      expect(started).toEqual([]);
    });

    test('takes null as absent, for clients that cannot omit an argument', async () => {
      const nothing = { webhook_id: null, states: null, trigger: null, return_id: null, to: null };
      const args = { from: '2026-11-20T10:00:00Z', ...nothing };
      expect((await call('start_webhook_replay', args)).isError).toBe(false);
    });

    test('that does not exist is named with the next step', async () => {
      const result = await call('cancel_webhook_replay', { replay_id: 999 });
      expect([result.isError, result.text]).toEqual([
        true,
        'This shop has no such replay. list_webhook_replays returns the existing ones.',
      ]);
    });
  });

  test('a delivery is not sent without the check of its webhook because webhook_id is empty', async () => {
    const args = { ...GOOD_CALLS.replay_webhook_delivery, webhook_id: 'null' };
    const { isError, text } = await call('replay_webhook_delivery', args);
    expect([isError, text]).toEqual([
      true,
      expect.stringContaining('webhook_id must not be empty'),
    ]);
  });
});
