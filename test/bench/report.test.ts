import { describe, expect, test } from '@jest/globals';
import { failureOf, goalsList, hasFailed, mayBePublished, summarise } from './report.ts';

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

describe('the list of the page', () => {
  const withParts = {
    ...quiet,
    figures: [...figures, { name: 'of these kafka', value: '2.0 % (worker 1.0)' }],
  };

  test('has the figures with a goal, and says which goal was missed or not measured', () => {
    expect(goalsList([withParts])).toBe(
      '- `idle`: share 9.0 % (≤ 8.0 %: **missed**); to a peer none (≤ 1.00: **not measured**)',
    );
  });

  test('has the first two figures of a row without goals, without their spread', () => {
    const plain = [
      { name: 'rate', value: '10 (9 to 12)' },
      { name: 'CPU', value: '0.5' },
      { name: 'parts', value: '3' },
    ];
    expect(goalsList([{ ...quiet, figures: plain }])).toBe('- `idle`: rate 10; CPU 0.5');
  });

  test('leaves out the figures of a disturbed row', () => {
    const table = goalsList([disturbed]);
    expect(table).not.toContain('9.0 %');
    expect(table).toContain('not published: background load 5.3 % (≤ 2.0 %: **missed**)');
  });
});
