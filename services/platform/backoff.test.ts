import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { addedJitter, createBackoff, equalJitter, noJitter, retry } from './backoff.ts';

const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const backoffs = fc.record({
  firstMs: fc.integer({ min: 1, max: 10_000 }),
  longestMs: fc.integer({ min: 10_000, max: 1_000_000 }),
  failures: fc.integer({ min: 1, max: 5_000 }),
  random: randoms,
});

/** The pause before jitter is applied. */
const scheduled = (o: { firstMs: number; longestMs: number; failures: number }): number =>
  Math.min(o.firstMs * 2 ** (o.failures - 1), o.longestMs);

describe('a backoff', () => {
  test('with equal jitter is from half of the scheduled pause to all of it', () => {
    fc.assert(
      fc.property(backoffs, ({ failures, random, ...o }) => {
        const pauseMs = createBackoff({ ...o, jitter: equalJitter, random: () => random })(
          failures,
        );
        const wholeMs = scheduled({ ...o, failures });
        expect(pauseMs).toBeGreaterThanOrEqual(wholeMs / 2);
        expect(pauseMs).toBeLessThanOrEqual(wholeMs);
      }),
    );
  });

  test('with added jitter is never shorter than scheduled, and up to a fifth longer', () => {
    fc.assert(
      fc.property(backoffs, ({ failures, random, ...o }) => {
        const pauseMs = createBackoff({ ...o, jitter: addedJitter, random: () => random })(
          failures,
        );
        const wholeMs = scheduled({ ...o, failures });
        expect(pauseMs).toBeGreaterThanOrEqual(wholeMs);
        expect(pauseMs).toBeLessThanOrEqual(wholeMs * 1.2);
      }),
    );
  });

  test('never becomes shorter with more failures, for the same random number', () => {
    fc.assert(
      fc.property(backoffs, ({ failures, random, ...o }) => {
        const backoff = createBackoff({ ...o, jitter: equalJitter, random: () => random });
        expect(backoff(failures + 1)).toBeGreaterThanOrEqual(backoff(failures));
      }),
    );
  });

  test('doubles up to the longest pause', () => {
    const backoff = createBackoff({ firstMs: 100, longestMs: 1_000, jitter: noJitter });
    expect([1, 2, 3, 4, 5, 2_000].map(backoff)).toEqual([100, 200, 400, 800, 1_000, 1_000]);
  });
});

describe('retry', () => {
  const failing = (times: number) => {
    let calls = 0;
    return async () => {
      calls += 1;
      if (calls <= times) throw new Error(`failure ${calls}`);
      return calls;
    };
  };

  test('repeats the work with growing pauses until it succeeds', async () => {
    const seen: number[] = [];
    const backoff = (failures: number) => {
      seen.push(failures);
      return 0;
    };
    expect(await retry(failing(3), { backoff, isTransient: () => true })).toBe(4);
    expect(seen).toEqual([1, 2, 3]);
  });

  test('ends with the first error that is not passing', async () => {
    const isTransient = (_: unknown, failures: number) => failures < 2;
    await expect(retry(failing(9), { backoff: () => 0, isTransient })).rejects.toThrow('failure 2');
  });

  test('is ended by its signal, also during a pause', async () => {
    const ending = new AbortController();
    const backoff = () => {
      setImmediate(() => ending.abort());
      return 3_600_000;
    };
    const retrying = retry(failing(9), { backoff, isTransient: () => true, signal: ending.signal });
    await expect(retrying).rejects.toThrow('failure 2');
  });
});
