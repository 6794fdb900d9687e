import { describe, expect, test } from '@jest/globals';
import { parseRetryAfter } from './retry-after.ts';

describe('Retry-After', () => {
  const now = new Date('2026-11-21T10:00:00Z');
  test.each([
    ['120', 120_000],
    [' 7 ', 7_000],
    ['0', 0],
    ['Sat, 21 Nov 2026 10:01:00 GMT', 60_000],
    ['Sat, 21 Nov 2026 09:00:00 GMT', 0],
    ['-5', undefined],
    ['1.5', undefined],
    ['1e3', undefined],
    ['2026-11-21T10:01:00Z', undefined],
    ['Sat, 99 Nov 2026 10:01:00 GMT', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('%j is %j ms', (value, expected) => {
    expect(parseRetryAfter(value, now)).toBe(expected);
  });
});
