import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ATTEMPT_MS } from '../../sender/send.ts';
import { pauseAfter, reschedulePause } from './retry-schedule.ts';

const HOUR_MS = 3_600_000;
const SCHEDULE_MS = [
  5_000,
  30_000,
  300_000,
  1_800_000,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

test('an attempt has a total limit of 15 seconds', () => {
  expect(ATTEMPT_MS).toBe(15_000);
});

describe('the retry schedule', () => {
  test('has ten pauses, each with up to a fifth more', () => {
    expect(SCHEDULE_MS).toHaveLength(10);
    SCHEDULE_MS.forEach((pause, index) => {
      expect(pauseAfter(index + 1, undefined, () => 0)).toBe(pause);
      expect(pauseAfter(index + 1, undefined, () => 0.999_999)).toBeLessThanOrEqual(
        (pause * 6) / 5,
      );
    });
    expect(pauseAfter(11, undefined)).toBeUndefined();
  });

  test('is never shortened, and follows Retry-After up to a day', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.option(fc.nat({ max: 10 * 24 * HOUR_MS }), { nil: undefined }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failed, asked, random) => {
          const pause = pauseAfter(failed, asked, () => random) ?? 0;
          expect(pause).toBeGreaterThanOrEqual(SCHEDULE_MS[failed - 1] ?? 0);
          expect(pause).toBeGreaterThanOrEqual(Math.min(asked ?? 0, 24 * HOUR_MS));
          expect(pause).toBeLessThanOrEqual((6 * 24 * HOUR_MS) / 5);
        },
      ),
    );
  });
});

test('a delivery that cannot be sent is rescheduled by a minute, then by more, up to ten', () => {
  let waited = 0;
  const pauses = Array.from({ length: 6 }, () => {
    const pause = reschedulePause(waited);
    waited += pause;
    return pause / 60_000;
  });
  expect(pauses).toEqual([1, 1, 2, 4, 8, 10]);
});
