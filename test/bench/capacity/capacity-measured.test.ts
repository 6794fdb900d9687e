import { describe, expect, test } from '@jest/globals';
import type { Figure } from '../figure.ts';
import { BY_PROCESS } from '../measure.ts';
import { IDLE_STACK } from '../rows/idle.ts';
import { DELIVERY_RATE } from '../rows/throughput.ts';
import { storedName } from '../stored.ts';
import { CAPACITY_ROWS, checksFrom, checkTable, coefficientsFrom } from './capacity-measured.ts';

const shares = { mean: 0, worst: 0, slices: 1 };
const byProcess = (parts: Record<string, number>): Figure => ({
  name: BY_PROCESS,
  value: '',
  parts,
});
const number = (name: string, value: number): Figure => ({ name, value: '', number: value });

/** Round numbers instead of measured ones. CPU-s per 1,000. */
const FIGURES: Readonly<Record<string, readonly Figure[]>> = {
  idle: [{ name: IDLE_STACK, value: '', parts: { webhooks: 2, kafka: 4 } }],
  'steady-50': [byProcess({ webhooks: 4, kafka: 2 })],
  'steady-200': [byProcess({ webhooks: 2, kafka: 1 })],
  throughput: [
    number(DELIVERY_RATE, 1_000),
    byProcess({ webhooks: 0.5, kafka: 0.25 }),
    number(storedName('delivery'), 4_000),
    number(storedName('event'), 2_000),
    number(storedName('record'), 1_500),
  ],
  closed: [byProcess({ returns: 10 }), number(storedName('return'), 9_000)],
  'capacity-100': [number('cores', 0.45)],
  'capacity-400': [number('cores', 0.75)],
};
const results = CAPACITY_ROWS.map((row) => ({ row, figures: FIGURES[row.name] ?? [], shares }));

describe('coefficients of the capacity model', () => {
  const known = coefficientsFrom(results, 'a test');

  test('are the cores by process at each rate, from the idle stack to the burst', () => {
    expect(known.points).toEqual([
      { perSecond: 0, cores: { webhooks: 0.02, kafka: 0.04 } },
      { perSecond: 50, cores: { webhooks: 0.2, kafka: 0.1 } },
      { perSecond: 200, cores: { webhooks: 0.4, kafka: 0.2 } },
      { perSecond: 1_000, cores: { webhooks: 0.5, kafka: 0.25 } },
    ]);
    expect(known.returns).toEqual({ perSecond: 20, cores: { returns: 0.2 } });
    expect(known.stored).toEqual({ delivery: 4_000, event: 2_000, record: 1_500, return: 9_000 });
  });

  test('are checked at rates that were not used to compute them', () => {
    // At 100: a third of the way from 0.3 to 0.6 cores; at 400: a quarter from 0.6 to 0.75.
    const checks = checksFrom(results, known);
    expect(checks.map(({ model }) => Number(model.toFixed(4)))).toEqual([0.4, 0.6375]);
    expect(checkTable(checks)).toContain('receivers that answer at once | 0.40 | 0.45 | 1.13 |');
  });

  test('are not computed when a row is missing', () => {
    const some = results.filter(({ row }) => row.name !== 'closed');
    expect(() => coefficientsFrom(some, '')).toThrow('row closed was not run');
  });
});
