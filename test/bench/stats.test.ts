import { expect, test } from '@jest/globals';
import { slopeOf } from './stats.ts';

test('the slope of points on a line is the slope of the line', () => {
  const line = [0, 1, 2, 5].map((x) => [x, 3 - 2 * x] as const);
  expect(slopeOf(line)).toBeCloseTo(-2);
});

test('points off the line change the slope by least squares', () => {
  expect(
    slopeOf([
      [0, 0],
      [1, 3],
      [2, 0],
      [3, 3],
    ]),
  ).toBeCloseTo(0.6);
});
