import { expect, test } from '@jest/globals';
import { sampled } from './sampling.ts';

const values = (given: readonly number[]) => {
  const seen: number[] = [];
  const doubts: string[] = [];
  const trial = { doubts };
  const mean = () => seen.reduce((sum, one) => sum + one, 0) / seen.length;
  const rounds = sampled(trial, {
    round: async () => void seen.push(given[seen.length] ?? 0),
    misses: () => (mean() < 1 ? [`mean ${mean()}`] : []),
  });
  return { trial, rounds };
};

test('stops after one round when the comparison holds', async () => {
  const { trial, rounds } = values([1, 0]);
  expect(await rounds).toBe(1);
  expect(trial.doubts).toEqual([]);
});

test('further rounds can outweigh a bad first round', async () => {
  const { trial, rounds } = values([0, 1, 2]);
  expect(await rounds).toBe(3);
  expect(trial.doubts).toEqual([]);
});

test('a comparison that never holds adds one doubt', async () => {
  const { trial, rounds } = values([0, 0, 0, 0]);
  expect(await rounds).toBe(4);
  expect(trial.doubts).toEqual(['mean 0']);
});
