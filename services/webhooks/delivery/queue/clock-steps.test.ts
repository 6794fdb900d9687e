import { expect, jest, test } from '@jest/globals';
import type pg from 'pg';
import { silentLogger } from '../../../../test/kit/services/telemetry.ts';
import { createRetryClock } from '../attempt/retry-clock.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { ActiveQueues } from '../scheduler/active-queues.ts';
import { createClockSteps } from './clock-steps.ts';
import { createDatabaseClock } from './database-clock.ts';

const HOUR_MS = 3_600_000;

/** Clock steps over a database that records its statements with their shards, and has no rows to correct. */
function newClockSteps() {
  const [statements, lines, steps]: [string[], unknown[], number[]] = [[], [], []];
  const active = new ActiveQueues();
  active.add({
    key: '1:1',
    shopId: 1n,
    subscriptionId: 1n,
    endpointId: 5n,
    endpointKey: '1:5',
    shard: 3,
    health: NEW_ENDPOINT,
  });
  const query = async ({ name, values }: pg.QueryConfig) => {
    statements.push(`${name} ${values?.[0]}`);
    return { rows: [{ count: 0 }] };
  };
  const clock = createRetryClock();
  const clockSteps = createClockSteps({
    pool: { query } as unknown as pg.Pool,
    logger: Object.assign(silentLogger(), { warn: (fields: unknown) => void lines.push(fields) }),
    clock,
    databaseClock: createDatabaseClock(),
    active,
    metrics: { clockStep: (stepMs) => void steps.push(Math.round(stepMs / HOUR_MS)) },
  });
  const note = (skewMs: number): void => {
    const at = performance.now();
    clockSteps.note({ startedMs: at, endedMs: at, databaseMs: at + skewMs });
  };
  return { clockSteps, clock, active, note, statements, lines, steps };
}

test('a step is logged and counted once, and every queue in memory is read from its start', () => {
  const { active, note, lines, steps } = newClockSteps();
  const [queue] = active.due();
  if (!queue) throw new Error('it was added');
  for (const skewMs of [0, 0, -HOUR_MS, -HOUR_MS, 0, 0]) {
    [queue.hasDueWork, queue.fullScanAtMs] = [false, performance.now()];
    const before = steps.length;
    note(skewMs);
    const isStep = steps.length > before;
    expect([queue.hasDueWork, queue.fullScanAtMs < 0]).toEqual([isStep, isStep]);
  }
  expect(steps).toEqual([-1, 1]);
  expect(lines).toEqual([{ seconds: -3_600 }, { seconds: 3_600 }]);
});

test('the retry clock is that of the database plus the offset', () => {
  const nowMs = performance.now();
  const stopped = jest.spyOn(performance, 'now').mockReturnValue(nowMs);
  const { clockSteps, clock, note } = newClockSteps();
  note(5 * HOUR_MS);
  clock.advance(3_600);
  const aheadMs = clockSteps.retryNowMs() - nowMs;
  stopped.mockRestore();
  expect(aheadMs).toBeCloseTo(6 * HOUR_MS);
});

test('corrections run regularly, after a step, and for new shards', async () => {
  const { clockSteps, note, statements } = newClockSteps();
  const correct = async (...shards: number[]): Promise<string[]> => {
    await clockSteps.correct(shards);
    return statements.splice(0);
  };
  note(0);
  expect(await correct(3)).toEqual(['mark-fresh-ready 3', 'restart-waits 3']);
  expect(await correct(3)).toEqual([]);
  expect(await correct(3, 4)).toEqual(['mark-fresh-ready 4']);
  note(-HOUR_MS);
  expect(await correct(3, 4)).toEqual(['mark-fresh-ready 3,4', 'restart-waits 3,4']);
  expect(await correct(4)).toEqual([]);
  expect(await correct(3, 4)).toEqual(['mark-fresh-ready 3']);
});
