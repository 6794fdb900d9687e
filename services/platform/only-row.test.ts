import { expect, test } from '@jest/globals';
import { onlyRow } from './only-row.ts';

test('the only row is returned', () => {
  expect(onlyRow({ rows: [{ id: 5n }] })).toEqual({ id: 5n });
});

test.each([0, 2])('%i rows are a bug', (count) => {
  const rows = Array.from({ length: count }, (_, id) => ({ id }));
  expect(() => onlyRow({ rows })).toThrow(`returned ${count} rows instead of one`);
});
