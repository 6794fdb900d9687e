import { expect, jest, test } from '@jest/globals';
import { createDatabaseClock } from './database-clock.ts';

const HOUR_MS = 3_600_000;

/** A slow reading of a clock that is ahead of the monotonic one by `skewMs`. */
function readingOf(skewMs: number, tookMs = 1) {
  const startedMs = performance.now();
  return { startedMs, endedMs: startedMs + tookMs, databaseMs: startedMs + tookMs / 2 + skewMs };
}

test('a slow response does not look like a step of the clock', () => {
  const clock = createDatabaseClock();
  const skewMs = 5_000_000;
  for (const [skew, tookMs] of [
    [skewMs, 8_000],
    // Within the uncertainty of the slow response.
    [skewMs, 1],
    [skewMs, 60_000],
    [skewMs + 500, 1],
  ] as const) {
    expect(clock.read(readingOf(skew, tookMs))).toBe(0);
  }
  expect(Math.abs(clock.read(readingOf(skewMs - HOUR_MS)) + HOUR_MS)).toBeLessThan(1_000);
  expect(Math.abs(clock.read(readingOf(skewMs)) - HOUR_MS)).toBeLessThan(1_000);
});

test('the clock follows each reading', () => {
  const nowMs = performance.now();
  const stopped = jest.spyOn(performance, 'now').mockReturnValue(nowMs);
  const clock = createDatabaseClock();
  const aheadMs = [5_000_000, 5_000_000 - HOUR_MS, 5_000_000].map((skewMs) => {
    clock.read(readingOf(skewMs));
    return [skewMs, clock.nowMs() - nowMs] as const;
  });
  stopped.mockRestore();
  for (const [skewMs, actualMs] of aheadMs) expect(Math.abs(actualMs - skewMs)).toBeLessThan(1);
});
