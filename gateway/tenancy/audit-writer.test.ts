import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { metrics } from '@opentelemetry/api';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { createLogger } from '../../services/platform/telemetry/log.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { costOf, recordingPool, vacuum } from '../../test/kit/postgres/plans.ts';
import { until } from '../../test/kit/until.ts';
import { type AuditEntry, recordAudit } from './audit.ts';
import { alikeText, assistantCalls, listAudit } from './audit-list.ts';
import { namesFor } from './audit-names.ts';
import { type AuditWriter, createAuditWriter } from './audit-writer.ts';
import { auditedCall } from './audited-call.ts';
import { addressWithoutSecrets, changesOf } from './field-change.ts';
import { addMember, removeMember } from './members.ts';
import { closeOpenCalls, DAY_BYTES_MAX, endCalls, type OpenCall, openCalls } from './open-calls.ts';

let under: TestGateway;
beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

describe('audit writer', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway();
  });
  afterAll(() => gateway.stop());

  /** A writer with the test's database, a count of its statements, and a switch for an outage. */
  function writerUnderTest(o: { readonly stopMs?: number; readonly dayBytes?: number } = {}) {
    const state = {
      statements: 0,
      isUnavailable: false,
      unavailableAfter: Number.POSITIVE_INFINITY,
      statementMs: 0,
      lost: 0,
    };
    const db: Queryable = new Proxy(gateway.database.pool, {
      get(pool, name) {
        const member: unknown = Reflect.get(pool, name);
        if (typeof member !== 'function') return member;
        if (name !== 'query') return member.bind(pool);
        return async (...args: unknown[]) => {
          state.statements += 1;
          if (state.statementMs > 0) await sleep(state.statementMs);
          if (state.isUnavailable || state.statements > state.unavailableAfter)
            throw Object.assign(new Error('unavailable'), { code: 'ECONNREFUSED' });
          return member.apply(pool, args);
        };
      },
    });
    const logger = createLogger({
      service: 'test',
      level: 'error',
      destination: {
        write(line) {
          state.lost += Number(JSON.parse(line).entries);
        },
      },
    });
    const meter = metrics.getMeter('test');
    const writer: AuditWriter = createAuditWriter(db, { logger, meter, ...o });
    return { writer, state };
  }

  const callOf = (subject: string, more: Partial<AuditEntry> = {}): OpenCall => ({
    call: randomUUID(),
    entry: {
      shopId: 1n,
      by: { ...TEST_AUTHOR, requestId: 'request' },
      action: 'rest.tested',
      subject,
      detail: { phase: 'done' },
      ...more,
    },
  });
  const numbered = (name: string, count: number) =>
    Array.from({ length: count }, (_, nth) => callOf(`${name}${String(nth).padStart(4, '0')}`));
  const subjectsOf = (calls: readonly OpenCall[]) => calls.map(({ entry }) => entry.subject);
  /** Calls that are recorded, and have not ended. */
  async function opened(...calls: OpenCall[]): Promise<OpenCall[]> {
    await openCalls(gateway.database.pool, calls);
    return calls;
  }
  const rowsOf = async (table: 'audit_log' | 'open_calls', like: string) => {
    const { rows } = await gateway.database.pool.query<{ subject: string; detail: object }>(
      `select subject, detail from ${table} where subject like $1 order by at, ${table === 'audit_log' ? 'id' : 'subject'}`,
      [`${like}%`],
    );
    return rows;
  };
  const logged = async (like: string) =>
    (await rowsOf('audit_log', like)).map(({ subject }) => subject);
  const stillOpen = async (like: string) =>
    (await rowsOf('open_calls', like)).map(({ subject }) => subject);
  /** Makes open calls older than any call may take. */
  const age = (like: string) =>
    gateway.database.pool.query(
      "update open_calls set at = at - interval '11 minutes' where subject like $1",
      [`${like}%`],
    );

  describe('before the work', () => {
    test('concurrent calls are recorded with one statement', async () => {
      const { writer, state } = writerUnderTest();
      const calls = numbered('many-', 300);
      await Promise.all(calls.map((call) => writer.open(call)));
      expect(state.statements).toBe(1);
      expect(await stillOpen('many-')).toEqual(subjectsOf(calls));
      expect(await logged('many-')).toEqual([]);
    });

    test('the work begins when its call is recorded', async () => {
      const { writer } = writerUnderTest();
      const { entry } = callOf('first');
      const seen = auditedCall(
        writer,
        entry,
        () => stillOpen('first'),
        () => ({ phase: 'done' }),
      );
      expect(await seen).toEqual(['first']);
    });

    test('an invalid call fails alone', async () => {
      const { writer } = writerUnderTest();
      const bad = callOf('one-bad', { shopId: 987_654_321n });
      const calls = [callOf('one-good'), bad, callOf('one-other')];
      const results = await Promise.allSettled(calls.map((call) => writer.open(call)));
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      expect(await stillOpen('one-')).toEqual(['one-good', 'one-other']);
    });

    test('an outage rejects, also among single calls', async () => {
      const { writer, state } = writerUnderTest();
      // The first statement has all calls and fails by the invalid one; the second records the first call.
      state.unavailableAfter = 2;
      const bad = callOf('out-bad', { shopId: 987_654_321n });
      const calls = [callOf('out-first'), bad, callOf('out-last')];
      const results = await Promise.allSettled(calls.map((call) => writer.open(call)));
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
      expect(state.statements).toBe(3);
      state.unavailableAfter = Number.POSITIVE_INFINITY;
      await writer.open(callOf('out-after'));
      expect(await stillOpen('out-')).toEqual(['out-first', 'out-after']);
    });

    test('an id with any characters is recorded', async () => {
      const { writer } = writerUnderTest();
      await writer.open(callOf(`odd-\0\n\u001b\ud800${'x'.repeat(600)}`));
      expect(await stillOpen('odd-')).toEqual([`odd-${'\u{fffd}'.repeat(4)}${'x'.repeat(492)}`]);
    });
  });

  describe('an outcome', () => {
    test('becomes the only entry of its call, with the time of the call', async () => {
      const { writer } = writerUnderTest();
      const [call = callOf('')] = await opened(callOf('soon-asked', { detail: {} }));
      await age('soon-');
      const detail = { phase: 'done' };
      writer.end({ ...call, entry: { ...call.entry, subject: 'soon-created', detail } });
      await until(async () => (await logged('soon-')).length > 0);
      expect(await rowsOf('audit_log', 'soon-')).toEqual([
        { subject: 'soon-created', detail: { phase: 'done' } },
      ]);
      expect(await stillOpen('soon-')).toEqual([]);
      const { rows } = await gateway.database.pool.query(
        "select from audit_log where subject = 'soon-created' and at < now() - interval '10 minutes'",
      );
      expect(rows).toHaveLength(1);
    });

    test('is there after endNow, also beside a statement that runs; an outage delays it by a second', async () => {
      const { writer, state } = writerUnderTest();
      const calls = await opened(...numbered('now-', 3));
      await Promise.all(calls.map((call) => writer.endNow(call)));
      expect((await logged('now-')).sort()).toEqual(subjectsOf(calls));
      state.isUnavailable = true;
      const [late = callOf('')] = await opened(callOf('now-late'));
      await writer.endNow(late);
      expect(await stillOpen('now-late')).toEqual(['now-late']);
      state.isUnavailable = false;
      await until(async () => (await logged('now-late')).length === 1);
    });

    test('that was written, with a lost answer, is not written again', async () => {
      const calls = await opened(...numbered('twice-', 2));
      for (const _ of [1, 2]) await endCalls(gateway.database.pool, calls, DAY_BYTES_MAX);
      expect(await logged('twice-')).toEqual(subjectsOf(calls));
    });

    test('waits in memory during an outage, in its order, without the invalid ones', async () => {
      const { writer, state } = writerUnderTest();
      const [first, bad, last] = ['rest-1', 'rest-bad', 'rest-2'].map((subject) => callOf(subject));
      if (!first || !bad || !last) throw new Error('three calls were made');
      await opened(first, bad, last);
      state.unavailableAfter = 2;
      writer.end(first);
      writer.end({ ...bad, entry: { ...bad.entry, action: 'x'.repeat(101) } });
      writer.end(last);
      await until(() => state.statements >= 3);
      state.unavailableAfter = Number.POSITIVE_INFINITY;
      await until(async () => (await logged('rest-')).length === 2);
      expect(await logged('rest-')).toEqual(['rest-1', 'rest-2']);
      await until(() => state.lost === 1);
    });

    test('is written by stop', async () => {
      const { writer } = writerUnderTest();
      const calls = await opened(...numbered('stop-', 1_200));
      for (const call of calls) writer.end(call);
      await writer.stop();
      expect((await logged('stop-')).sort()).toEqual(subjectsOf(calls));
    });

    test('that stop cannot write before its one deadline is reported, and its call stays open', async () => {
      const { writer, state } = writerUnderTest({ stopMs: 300 });
      state.isUnavailable = true;
      state.statementMs = 1_000;
      const [call = callOf('')] = await opened(callOf('late-'));
      for (let nth = 0; nth < 5_000; nth += 1) writer.end(call);
      const start = performance.now();
      await writer.stop();
      // Ten statements, one after another, would take ten seconds.
      expect(performance.now() - start).toBeLessThan(3_000);
      const { statements } = state;
      expect(state.lost).toBe(5_000);
      // The statement that was running fails later. Its outcomes are not written again, nor reported again.
      await sleep(1_500);
      expect(state).toMatchObject({ statements, lost: 5_000 });
      expect(await stillOpen('late-')).toEqual(['late-']);
    });
  });

  describe('a call without an outcome', () => {
    test('becomes an entry as unknown, once, when no call takes so long', async () => {
      await opened(...numbered('dead-', 3));
      const { pool } = gateway.database;
      await closeOpenCalls(pool, 100);
      expect(await logged('dead-')).toEqual([]);
      await age('dead-');
      await Promise.all([closeOpenCalls(pool, 2), closeOpenCalls(pool, 100)]);
      await closeOpenCalls(pool, 100);
      const unknown = { phase: 'unknown' };
      expect((await rowsOf('audit_log', 'dead-')).map(({ detail }) => detail)).toEqual(
        Array(3).fill(unknown),
      );
      expect(await stillOpen('dead-')).toEqual([]);
    });
  });

  describe('beyond its day, a shop', () => {
    test('has one entry for equal REST calls, and no write is rejected', async () => {
      const [shopId, other] = [await gateway.newShop(), await gateway.newShop()];
      const { writer } = writerUnderTest({ dayBytes: 2_000 });
      const writes = async (
        name: string,
        count: number,
        of: bigint,
        more: Partial<AuditEntry> = {},
      ) => {
        const calls = numbered(name, count).map(({ call, entry }) => ({
          call,
          entry: { ...entry, shopId: of, detail: { call, phase: 'done' }, ...more },
        }));
        await Promise.all(calls.map((call) => writer.open(call)));
        for (const call of calls) writer.end(call);
      };
      await writes('fold-apart-', 2, shopId);
      await until(async () => (await logged('fold-apart-')).length === 2);
      await writes('fold-equal-', 412, shopId);
      await writes('fold-refused-', 1, shopId, { detail: { phase: 'refused' } });
      await writes('fold-mcp-', 1, shopId, { action: 'mcp.tested' });
      await writes('fold-other-', 2, other);
      await writer.stop();
      expect(await logged('fold-equal-')).toEqual([]);
      expect(await logged('fold-other-')).toHaveLength(2);
      await age('fold-');
      await closeOpenCalls(gateway.database.pool, 1_000);
      expect(await stillOpen('fold-')).toEqual([]);
      const entries = await listAudit(gateway.database.pool, { shopId, limit: 100 });
      const shown = entries.map((entry) => {
        const { phase, changes } = entry.detail;
        return [entry.subject, phase, changes, ...alikeText(entry)];
      });
      expect(shown).toHaveLength(5);
      expect(shown).toEqual(
        expect.arrayContaining([
          [
            '',
            'done',
            [{ field: 'objects', to: expect.stringMatching(/^fold-equal-0000 fold-equal-0001 /) }],
            '412 alike',
          ],
          ['fold-mcp-0000', 'done', undefined],
          ['fold-refused-0000', 'refused', undefined],
        ]),
      );
    });
  });
});

async function newMember(shopId: bigint): Promise<{ userId: bigint; email: string }> {
  const email = `${randomUUID()}@example.com`;
  const member = { shopId, email, role: 'analyst', by: TEST_AUTHOR } as const;
  const { userId } = await addMember(under.database.pool, member);
  return { userId, email };
}

/** The e-mail addresses that the names of the shop's whole audit log have. */
async function emailsIn(shopId: bigint): Promise<string[]> {
  const { pool } = under.database;
  const { users } = await namesFor(pool, shopId, await listAudit(pool, { shopId, limit: 100 }));
  return [...users.values()].map(({ email }) => email);
}

describe('the names of an audit log', () => {
  test('have no user of another shop, although a rejected request named one', async () => {
    const [shopId, otherShopId] = [await under.newShop(), await under.newShop()];
    const [member, stranger] = [await newMember(shopId), await newMember(otherShopId)];
    for (const action of ['portal.change_role', 'portal.remove_member']) {
      const detail = { call: randomUUID(), phase: 'refused' };
      const subject = String(stranger.userId);
      await recordAudit(under.database.pool, { shopId, by: TEST_AUTHOR, action, subject, detail });
    }
    const emails = await emailsIn(shopId);
    expect(emails).toContain(member.email);
    expect(emails).not.toContain(stranger.email);
  });

  test('have a member who was removed', async () => {
    const shopId = await under.newShop();
    const { email } = await newMember(shopId);
    await removeMember(under.database.pool, { shopId, email, by: TEST_AUTHOR });
    expect(await emailsIn(shopId)).toContain(email);
  });
});

describe('changes of fields', () => {
  test('are those whose values differ', () => {
    const fields = {
      url: ['https://a.example/', 'https://b.example/'],
      status: ['active', 'active'],
      topic: [undefined, 'return'],
      trigger: ['return.closed', undefined],
      name: ['', undefined],
    } as const;
    expect(changesOf(fields)).toEqual([
      { field: 'url', from: 'https://a.example/', to: 'https://b.example/' },
      { field: 'topic', to: 'return' },
      { field: 'trigger', from: 'return.closed' },
    ]);
  });

  test('are short, and can be stored', () => {
    const [change] = changesOf({ name: [`a\0\ud800b`, 'x'.repeat(400)] });
    expect(change?.from).toBe('a\ufffd\ufffdb');
    expect(change?.to).toBe(`${'x'.repeat(300)}…`);
  });
});

describe('the address of a webhook in the audit log', () => {
  test.each([
    ['https://example.com/webhooks/returns', 'https://example.com/webhooks/returns'],
    ['https://example.com:8443/', 'https://example.com:8443/'],
    ['https://user:pass@example.com/a', 'https://example.com/a'],
    ['https://example.com/a?token=s3cret&v=1#part', 'https://example.com/a?token=…&v=…'],
    [
      'https://hooks.slack.example/services/T00000000/B00000000/x1x2x3x4x5x6x7x8x9x0x1x2',
      'https://hooks.slack.example/services/T00000000/B00000000/x1x2…',
    ],
    ['no address', ''],
  ])('%s has no secret', (url, shown) => {
    expect(addressWithoutSecrets(url)).toBe(shown);
  });
});

test('the calls of a page are found with one statement, by index, also for an object of many calls', async () => {
  const { pool, url, migratorUrl } = under.database;
  const shopId = await under.newShop();
  // Each minute one call about the same assistant, with its change.
  await pool.query(
    `insert into audit_log (shop_id, at, actor_kind, actor_id, actor_name, request_id, action, subject, detail)
     select $1, now() - i / 2 * interval '1 minute', 'user', '7', '', 'request ' || i / 2,
            case i % 2 when 0 then 'mcp.disconnect_assistant' else 'assistant.disconnected' end, 'grant',
            case i % 2 when 0 then '{"call": "c"}'::jsonb else '{}' end
       from generate_series(0, 49999) i`,
    [shopId],
  );
  await vacuum(migratorUrl);
  const filter = { shopId, action: 'assistant.disconnected', limit: 200 };
  const changes = await listAudit(pool, filter);
  const recorded = recordingPool(url);
  try {
    const calls = await assistantCalls(recorded.pool, shopId, changes);
    expect(changes).toHaveLength(200);
    expect(changes.map(({ id }) => calls.get(id))).toMatchObject(
      changes.map(({ requestId }) => ({ action: 'mcp.disconnect_assistant', requestId })),
    );
    const statements = recorded.taken();
    expect(statements).toHaveLength(1);
    for (const statement of statements) {
      const cost = await costOf(pool, statement);
      expect(cost.scans).toEqual([]);
      expect(cost.buffers).toBeLessThan(8_000);
    }
    expect((await assistantCalls(pool, await under.newShop(), changes)).size).toBe(0);
  } finally {
    await recorded.pool.end();
  }
});
