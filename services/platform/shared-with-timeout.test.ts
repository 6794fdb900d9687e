import { expect, test } from '@jest/globals';
import { sharedWithTimeout } from './shared-with-timeout.ts';

test('a hanging query times out and is not started again in the meantime', async () => {
  let asked = 0;
  let answer: (text: string) => void = () => {};
  const ask = sharedWithTimeout(() => {
    asked += 1;
    return new Promise<string>((resolve) => {
      answer = resolve;
    });
  });
  expect(await ask()).toBeUndefined();
  const second = ask();
  answer('late');
  expect(await second).toBe('late');
  expect(asked).toBe(1);
  const third = ask();
  answer('again');
  expect([await third, asked]).toEqual(['again', 2]);
});

test('a failed query rejects', async () => {
  const ask = sharedWithTimeout(() => Promise.reject(new Error('unavailable')));
  await expect(ask()).rejects.toThrow('unavailable');
});
