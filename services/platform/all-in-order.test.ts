import { describe, expect, test } from '@jest/globals';
import { allInOrder } from './all-in-order.ts';

describe('all in order', () => {
  test('resolves with what each resolves with', async () => {
    expect(await allInOrder([Promise.resolve('a'), Promise.resolve(1n)])).toEqual(['a', 1n]);
  });

  test('rejects as the first does, though another failed before it', async () => {
    const first = Promise.withResolvers<never>();
    const all = allInOrder([first.promise, Promise.reject(new Error('second'))]);
    await Promise.resolve();
    first.reject(new Error('first'));
    await expect(all).rejects.toThrow('first');
  });
});
