import { expect, test } from '@jest/globals';
import { payloadVersionAt } from './shops.ts';

test.each([
  ['2026-11-20', '2026-07', '2026-07'],
  ['2026-11-20', '2026-10', '2026-10'],
  ['2026-08-15', '2026-10', '2026-07'],
  ['2027-11-01', '2026-07', '2026-10'],
  ['2028-02-01', '2026-07', '2026-10'],
])('on %s a demo shop that prefers %s gets %s', (day, preferred, version) => {
  expect(payloadVersionAt(new Date(`${day}T00:00:00Z`), preferred)).toBe(version);
});
