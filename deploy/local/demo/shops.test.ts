import { expect, test } from '@jest/globals';
import { payloadVersionAt } from './shops.ts';

test.each([
  ['2026-11-20', '2026-07', '2026-07'],
  ['2026-11-20', '2026-10', '2026-10'],
  ['2026-08-15', '2026-10', '2026-07'],
  ['2027-11-01', '2026-07', '2026-10'],
  ['2028-02-01', '2026-07', '2026-10'],
])('at %s a demo shop meant for %s starts with %s', (day, wanted, version) => {
  expect(payloadVersionAt(new Date(`${day}T00:00:00Z`), wanted)).toBe(version);
});
