import { describe, expect, test } from '@jest/globals';
import { perThousand, together, withoutEnds } from './measure.ts';

const work = {
  byProcess: new Map([
    ['returns', 3],
    ['postgres', 4],
    ['sink', 0.5],
    ['publisher', 1],
    ['kafka', 0.004],
  ]),
  byKind: new Map([
    ['webhooks', 2.5],
    ['walwriter', 1.497],
    ['checkpointer', 0.003],
  ]),
  total: 8.504,
};

describe('CPU time of a slice', () => {
  test('has a second total without the processes of the bench itself', () => {
    expect(withoutEnds(work)).toBeCloseTo(7.004);
  });

  test('is listed by process, and for PostgreSQL by kind, with small parts added up', () => {
    expect(perThousand(work, 1_000)).toBe(
      'postgres 4.00 (webhooks 2.50, walwriter 1.50), returns 3.00, publisher 1.00, sink 0.50',
    );
    const many = new Map([...'abcdefgh'].map((name) => [name, 0.004]));
    expect(perThousand({ ...work, byProcess: many }, 1_000)).toBe('rest 0.03');
  });

  test('is added up over slices', () => {
    const sum = together([work, work]);
    expect(sum.total).toBeCloseTo(2 * work.total);
    expect(sum.byKind.get('webhooks')).toBe(5);
  });
});
