import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createRetrySlots, RETRIES_PER_SECOND } from './retry-slots.ts';

const perSecondOf = (atMs: readonly number[]): number[] => {
  const seconds = Map.groupBy(atMs, (ms) => Math.floor(ms / 1_000));
  return [...seconds.values()].map((all) => all.length);
};

describe('the retries of endpoints that fail together', () => {
  test('are limited to a number per second, never before their pause and never much later', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: 5_000 }, () => slots.take(5_400));
    expect(Math.max(...perSecondOf(pauses))).toBe(RETRIES_PER_SECOND);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(5_400);
    expect(Math.max(...pauses)).toBeLessThan(5_400 + 101_000);
  });

  test('keep their pause while they are few', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: RETRIES_PER_SECOND }, () => slots.take(30_000));
    expect(new Set(pauses)).toEqual(new Set([30_000]));
  });

  test('with longer pauses are not changed, because they have more jitter', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: 500 }, () => slots.take(1_800_000));
    expect(new Set(pauses)).toEqual(new Set([1_800_000]));
  });

  test('are never delayed by more than five minutes, however many there are', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: 40_000 }, () => slots.take(5_000));
    expect(Math.max(...pauses)).toBeLessThanOrEqual(306_000);
  });

  test('are never earlier than requested, whenever they fail', () => {
    const steps = fc.array(
      fc.record({ passMs: fc.nat(3_000), pauseMs: fc.integer({ min: 1, max: 500_000 }) }),
      { maxLength: 300 },
    );
    fc.assert(
      fc.property(steps, (all) => {
        let nowMs = 0;
        const slots = createRetrySlots(() => nowMs);
        for (const { passMs, pauseMs } of all) {
          nowMs += passMs;
          expect(slots.take(pauseMs)).toBeGreaterThanOrEqual(pauseMs);
        }
      }),
    );
  });
});
