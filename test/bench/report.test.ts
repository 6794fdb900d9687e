import { describe, expect, test } from '@jest/globals';
import { failureOf, hasFailed, mayBePublished, summarise } from './report.ts';

const row = { name: 'idle', about: '', run: async () => [] };
const figures = [
  { name: 'share', value: '9.0 %', goal: '≤ 8.0 %', met: false },
  { name: 'to a peer', value: 'none', goal: '≤ 1.00' },
];
const quiet = { row, figures, shares: { mean: 0.01, worst: 0.05, slices: 3 } };
const disturbed = { ...quiet, shares: { mean: 0.053, worst: 0.2, slices: 3 } };

describe('the table of figures', () => {
  test('shows for each goal whether it was met, missed or not measured', () => {
    const table = summarise([quiet]);
    expect(table).toContain('| idle | share | 9.0 % | ≤ 8.0 % | **missed** |');
    expect(table).toContain('| idle | to a peer | none | ≤ 1.00 | not measured |');
    expect(table).toContain('| 1.0 % (5.0 % in the worst of 3 slices) | ≤ 2.0 % | met |');
  });

  test('leaves out the figures of a disturbed row, and shows the background load', () => {
    const table = summarise([disturbed]);
    expect(table).not.toContain('9.0 %');
    expect(table).toContain('not published: background load | 5.3 %');
    expect([quiet, disturbed].map(mayBePublished)).toEqual([true, false]);
  });

  test('names a row that did not run', () => {
    const result = { ...quiet, figures: [failureOf(new Error('no Java'))] };
    expect([quiet, result].map(hasFailed)).toEqual([false, true]);
  });
});
