import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { metrics } from '@opentelemetry/api';
import { createLogger } from '../../services/platform/log.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../test/kit/gateway/test-gateway.ts';
import { until } from '../../test/kit/until.ts';
import type { AuditEntry } from './audit.ts';
import { type AuditWriter, createAuditWriter } from './audit-writer.ts';

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
  const expected = Array.from({ length: 300 }, (_, nth) => `many-${String(nth).padStart(3, '0')}`);
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
