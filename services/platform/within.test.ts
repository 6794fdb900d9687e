import { expect, test } from '@jest/globals';
import { within } from './within.ts';

test('waits for work that finishes in time', async () => {
  expect(await within(60_000, Promise.resolve('x'))).toBe(true);
});

test('does not wait for work that hangs', async () => {
  expect(await within(5, new Promise(() => {}))).toBe(false);
});

test('a failure in time is thrown, a later one is ignored', async () => {
  await expect(within(60_000, Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  let fail: (error: Error) => void = () => {};
  const late = new Promise((_, reject) => {
    fail = reject;
  });
  expect(await within(1, late)).toBe(false);
  fail(new Error('late'));
  await new Promise((resolve) => setImmediate(resolve));
});
