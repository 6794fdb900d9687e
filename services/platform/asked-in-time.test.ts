import { expect, test } from '@jest/globals';
import { askedInTime } from './asked-in-time.ts';

test('what hangs is given up, and not asked again meanwhile', async () => {
  let asked = 0;
  let answer: (text: string) => void = () => {};
  const ask = askedInTime(() => {
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
  answer('anew');
  expect([await third, asked]).toEqual(['anew', 2]);
});

test('what fails says so', async () => {
  const ask = askedInTime(() => Promise.reject(new Error('away')));
  await expect(ask()).rejects.toThrow('away');
});
