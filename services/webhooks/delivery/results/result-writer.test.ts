import { afterEach, expect, jest, test } from '@jest/globals';
import type pg from 'pg';
import { silentLogger } from '../../../../test/kit/services/telemetry.ts';
import { until } from '../../../../test/kit/until.ts';
import { createHealthChanges } from '../endpoint/health-changes.ts';
import { leaseOf } from '../queue/queue-ref.ts';
import type { Due } from '../queue/read-due.ts';
import type { AttemptResult } from './attempt-result.ts';
import { ResultWriter } from './result-writer.ts';

afterEach(() => void jest.useRealTimers());

function resultOf(nth: number): AttemptResult {
  const id = `018f0000-0000-7000-8000-${String(nth).padStart(12, '0')}`;
  const due: Due = {
    id,
    shopId: 1n,
    subscriptionId: BigInt(nth),
    endpointId: 1n,
    shard: 1,
    url: 'https://a.example/',
    payloadId: id,
    eventId: id,
    trigger: 'return.closed',
    apiVersion: '2026-10',
    revision: 1n,
    traceparent: '',
    attempts: 0,
    roundAttempts: 0,
    bytes: 2,
    dueAtMs: 0,
    queuedAtMs: 0,
    round: '',
    isRetry: false,
    encryptedSecrets: null,
    isSandbox: false,
    isTest: false,
    isFailing: false,
    body: null,
  };
  return { due, token: 1n, sent: undefined, ended: 'dropped', pauseMs: 0 };
}

test('when the database rejects results in a row, only samples are retried, and all are recorded soon after', async () => {
  jest.useFakeTimers({ doNotFake: ['queueMicrotask'] });
  let isRefused = true;
  let statements = 0;
  const recorded = new Set<string>();
  const pool = {
    query: async () => {
      statements += 1;
      if (isRefused) throw new Error('refused for a reason that is no outage');
      return { rows: [{ name: leaseOf({ shard: 1 }), token: 1n }] };
    },
  };
  const writer = new ResultWriter({
    // Only this part is used for such results.
    pool: pool as unknown as pg.Pool,
    logger: silentLogger(),
    offsetMs: () => 0,
    healthChanges: createHealthChanges(),
    onRecorded: (batch) => {
      for (const { due } of batch) recorded.add(due.id);
    },
  });
  for (let nth = 0; nth < 200; nth += 1) writer.add(resultOf(nth));
  await jest.advanceTimersByTimeAsync(500);
  // All together, then five one by one.
  expect(statements).toBe(6);
  await jest.advanceTimersByTimeAsync(580_000);
  expect(recorded.size).toBe(0);
  expect(writer.oldestMs()).toBeGreaterThan(580_000);

  isRefused = false;
  await jest.advanceTimersByTimeAsync(5_000);
  expect(recorded.size).toBe(200);
  expect(writer.oldestMs()).toBe(0);
});

test('results are written again until an outage of the database is over', async () => {
  let isAway = true;
  let statements = 0;
  const recorded: string[] = [];
  const pool = {
    query: async () => {
      statements += 1;
      if (isAway) throw Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' });
      return { rows: [{ name: leaseOf({ shard: 1 }), token: 1n }] };
    },
  };
  const writer = new ResultWriter({
    pool: pool as unknown as pg.Pool,
    logger: silentLogger(),
    offsetMs: () => 0,
    healthChanges: createHealthChanges(),
    onRecorded: (batch) => recorded.push(...batch.map(({ due }) => due.id)),
  });
  const result = resultOf(1);
  writer.add(result);
  await until(() => statements >= 3);
  expect(recorded).toEqual([]);
  isAway = false;
  await until(() => recorded.length > 0);
  expect(recorded).toEqual([result.due.id]);
});
