import { describe, expect, test } from '@jest/globals';
import { allInOrder } from './all-in-order.ts';

describe('all in order', () => {
  test('resolves with all results', async () => {
    expect(await allInOrder([Promise.resolve('a'), Promise.resolve(1n)])).toEqual(['a', 1n]);
  });

  test('rejects with the first failure in order, even if a later one failed earlier', async () => {
    const first = Promise.withResolvers<never>();
    const all = allInOrder([first.promise, Promise.reject(new Error('second'))]);
    await Promise.resolve();
    first.reject(new Error('first'));
    await expect(all).rejects.toThrow('first');
  });
});
