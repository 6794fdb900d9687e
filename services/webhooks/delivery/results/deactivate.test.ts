import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { actionOnFailing } from './deactivate.ts';

const DAY_MS = 24 * 3_600_000;
const cases = fc.record({
  failures: fc.integer({ min: 0, max: 40 }),
  share: fc.double({ min: 0, max: 1.5, noNaN: true }),
  warnedPercent: fc.constantFrom(0, 50, 70, 90),
});

function judge({
  failures,
  share,
  warnedPercent,
}: {
  failures: number;
  share: number;
  warnedPercent: number;
}) {
  return actionOnFailing({ failures, failingSinceMs: 0, warnedPercent }, share * 5 * DAY_MS);
}

describe('a subscription with only failures', () => {
  test('becomes inactive after five days with at least ten failures, never before', () => {
    fc.assert(
      fc.property(cases, (one) => {
        expect(judge(one).kind === 'deactivate').toBe(one.failures >= 10 && one.share >= 1);
      }),
    );
  });

  test.each([
    [0.999, 10, 'warn'],
    [1, 9, 'none'],
    [1, 10, 'deactivate'],
  ])('after %d of the five days, with %d failures: %s', (share, failures, kind) => {
    expect(judge({ failures, share, warnedPercent: 0 }).kind).toBe(kind);
  });

  test('gets one warning each at 50, 70 and 90 % of the time', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const action = judge(one);
        const due = [90, 70, 50].find((percent) => one.share * 100 >= percent) ?? 0;
        const isWarned = one.failures >= 10 && one.share < 1 && due > one.warnedPercent;
        expect(action.kind === 'warn' ? action.percent : 0).toBe(isWarned ? due : 0);
      }),
    );
  });

  test('gets all three warnings, whenever it is checked', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 0.99, noNaN: true }), { maxLength: 50 }),
        (shares) => {
          let warnedPercent = 0;
          const sent: number[] = [];
          for (const share of shares.toSorted((a, b) => a - b)) {
            const action = judge({ failures: 10, share, warnedPercent });
            if (action.kind !== 'warn') continue;
            warnedPercent = action.percent;
            sent.push(action.percent);
          }
          expect(sent).toEqual(sent.toSorted((a, b) => a - b));
          expect(new Set(sent).size).toBe(sent.length);
        },
      ),
    );
  });
});
