import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { randomOf } from './random.ts';

const draw = (seed: number, name: string) => {
  const random = randomOf(seed).fork(name);
  return Array.from({ length: 20 }, () => random.between(0, 1_000_000));
};

test('the seed and the name decide every choice', () => {
  fc.assert(
    fc.property(fc.integer(), fc.string(), (seed, name) => {
      expect(draw(seed, name)).toEqual(draw(seed, name));
      expect(draw(seed, name)).not.toEqual(draw(seed + 1, name));
      expect(draw(seed, name)).not.toEqual(draw(seed, `${name}.`));
    }),
  );
});

test('between() returns both bounds and nothing outside them', () => {
  const random = randomOf(1);
  const drawn = new Set(Array.from({ length: 500 }, () => random.between(3, 6)));
  expect([...drawn].sort()).toEqual([3, 4, 5, 6]);
  expect(() => random.pick([])).toThrow(RangeError);
});

test('a shuffled list has the same items in an order that the seed repeats', () => {
  const items = Array.from({ length: 50 }, (_, at) => at);
  const once = randomOf(1).shuffled(items);
  expect(once).not.toEqual(items);
  expect(once).toEqual(randomOf(1).shuffled(items));
  expect(once.toSorted((one, other) => one - other)).toEqual(items);
});
