import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { FAKE, sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { claimCall, finishCall, hashOfRequest, purgeCalls, releaseCall } from './idempotency.ts';

let bench: McpBench;
let agent: SignedInMember;
beforeAll(async () => {
  bench = await startMcpBench();
  agent = await bench.member('returns_agent');
}, 60_000);
afterAll(() => bench?.stop());

const returnId = Number(FAKE.returns.open);
let last = 0;
const newKey = () => `key-${++last}`;

interface AuditRow {
  readonly action: string;
  readonly subject: string;
  readonly actor_kind: string;
  readonly actor_id: string;
  readonly actor_name: string;
  readonly source: string;
  readonly detail: { readonly call: string; readonly phase: string; readonly client_id: string };
}

async function auditOf(member: SignedInMember): Promise<AuditRow[]> {
  const { rows } = await bench.database.pool.query<AuditRow>(
    'select * from audit_log where shop_id = $1 and actor_id = $2 order by id',
    [member.shopId, String(member.userId)],
  );
  return rows;
}

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
  test('has two entries for every change, before and after it, with the user as actor', async () => {
    const member = await bench.member('returns_agent');
    await bench.call(member.token, 'flag_return', { return_id: returnId, reasons: ['Odd'] });
    const rows = await auditOf(member);
    expect(rows).toHaveLength(2);
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
    expect(rows.map(({ detail }) => detail.phase)).toEqual(['asked', 'done']);
    expect(rows[0]?.detail.call).toBe(rows[1]?.detail.call);
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
    expect(phases).toEqual(['asked', 'refused', 'asked', 'unknown']);
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
      `alter table gateway.audit_log add constraint ${name} check (actor_id <> '${member.userId}')`,
    );
    const result = await bench.call(member.token, 'add_return_note', {
      return_id: returnId,
      text: 'x',
    });
    await migrator.query(`alter table gateway.audit_log drop constraint ${name}`);
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
