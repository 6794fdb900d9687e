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
import { assistantCalls, listAudit } from './audit-list.ts';
import { namesFor } from './audit-names.ts';
import { type AuditWriter, createAuditWriter } from './audit-writer.ts';
import { addressWithoutSecrets, changesOf } from './field-change.ts';
import { addMember, removeMember } from './members.ts';

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
  function writerUnderTest(o: { readonly stopMs?: number } = {}) {
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

  const entry = (subject: string, shopId = 1n): AuditEntry => ({
    shopId,
    by: { ...TEST_AUTHOR, requestId: 'request' },
    action: 'test.done',
    subject,
  });

  async function subjects(like: string): Promise<string[]> {
    const { rows } = await gateway.database.pool.query<{ subject: string }>(
      'select subject from audit_log where subject like $1 order by id',
      [`${like}%`],
    );
    return rows.map((row) => row.subject);
  }

  test('concurrent entries are written with one statement, in their order', async () => {
    const { writer, state } = writerUnderTest();
    const expected = Array.from(
      { length: 300 },
      (_, nth) => `many-${String(nth).padStart(3, '0')}`,
    );
    await Promise.all(expected.map((subject) => writer.write(entry(subject))));
    expect(state.statements).toBe(1);
    expect(await subjects('many-')).toEqual(expected);
  });

  test('writeSoon writes its entry together with the next one, or alone within a second', async () => {
    const { writer, state } = writerUnderTest();
    writer.writeSoon(entry('soon-1'));
    await writer.write(entry('soon-0'));
    expect([state.statements, await subjects('soon-')]).toEqual([1, ['soon-0', 'soon-1']]);
    writer.writeSoon(entry('soon-2'));
    await until(async () => (await subjects('soon-2')).length > 0);
  });

  test('an invalid entry fails alone', async () => {
    const { writer } = writerUnderTest();
    const results = await Promise.allSettled([
      writer.write(entry('one-good')),
      writer.write(entry('one-bad', 987_654_321n)),
      writer.write(entry('one-other')),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(await subjects('one-')).toEqual(['one-good', 'one-other']);
  });

  test('during an outage, write rejects, and entries of writeSoon are written after it', async () => {
    const { writer, state } = writerUnderTest();
    state.isUnavailable = true;
    writer.writeSoon(entry('outage-buffered'));
    await expect(writer.write(entry('outage-rejected'))).rejects.toThrow('unavailable');
    state.isUnavailable = false;
    await until(async () => (await subjects('outage-')).length > 0);
    expect(await subjects('outage-')).toEqual(['outage-buffered']);
  });

  test('an outage among single entries ends their writing, and keeps those of writeSoon', async () => {
    const { writer, state } = writerUnderTest();
    // The first statement has all entries and fails by the invalid one; the second writes the first entry.
    state.unavailableAfter = 2;
    const background = ['mixed-soon-1', 'mixed-soon-2', 'mixed-soon-3'];
    for (const subject of background) writer.writeSoon(entry(subject));
    const results = await Promise.allSettled([
      writer.write(entry('mixed-first')),
      writer.write(entry('mixed-bad', 987_654_321n)),
      writer.write(entry('mixed-last')),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(state.statements).toBe(3);
    state.unavailableAfter = Number.POSITIVE_INFINITY;
    await until(async () => (await subjects('mixed-soon-')).length === background.length);
    expect(await subjects('mixed-')).toEqual(['mixed-first', ...background]);
  });

  test('an outage among single entries of writeSoon keeps the rest in order', async () => {
    const { writer, state } = writerUnderTest();
    state.unavailableAfter = 2;
    writer.writeSoon(entry('rest-1'));
    writer.writeSoon(entry('rest-bad', 987_654_321n));
    writer.writeSoon(entry('rest-2'));
    await until(() => state.statements >= 3);
    state.unavailableAfter = Number.POSITIVE_INFINITY;
    await until(async () => (await subjects('rest-')).length === 2);
    expect(await subjects('rest-')).toEqual(['rest-1', 'rest-2']);
  });

  test('an id with any characters is written', async () => {
    const { writer } = writerUnderTest();
    await writer.write(entry(`odd-\0\n\u001b\ud800${'x'.repeat(600)}`));
    expect(await subjects('odd-')).toEqual([`odd-${'\u{fffd}'.repeat(4)}${'x'.repeat(492)}`]);
  });

  test('stop writes the buffered entries', async () => {
    const { writer } = writerUnderTest();
    const expected = Array.from(
      { length: 1_200 },
      (_, nth) => `stop-${String(nth).padStart(4, '0')}`,
    );
    for (const subject of expected) writer.writeSoon(entry(subject));
    await writer.stop();
    expect(await subjects('stop-')).toEqual(expected);
  });

  test('stop has one deadline for all its statements, and reports what is left', async () => {
    const { writer, state } = writerUnderTest({ stopMs: 300 });
    state.isUnavailable = true;
    state.statementMs = 1_000;
    for (let nth = 0; nth < 5_000; nth += 1) writer.writeSoon(entry('late'));
    const start = performance.now();
    await writer.stop();
    // Ten statements, one after another, would take ten seconds.
    expect(performance.now() - start).toBeLessThan(3_000);
    const { statements } = state;
    expect(state.lost).toBe(5_000);
    // The statement that was running fails later. Its entries are not written again, nor reported again.
    await sleep(1_500);
    expect(state).toMatchObject({ statements, lost: 5_000 });
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
