import { expect, test } from '@jest/globals';
import { fetchNoted, isOffline } from './network.ts';

const say = (onLine: boolean) =>
  Object.defineProperty(navigator, 'onLine', { value: onLine, configurable: true });

test('an answer counts for more than a browser that says it is offline', async () => {
  const url = 'data:,an answer';
  say(false);
  expect(isOffline()).toBe(true);
  await fetchNoted(url);
  expect(isOffline()).toBe(false);
  // A call that fails then was perhaps sent.
  await expect(fetchNoted('http://127.0.0.1:1')).rejects.toThrow();
  expect(isOffline()).toBe(false);
  say(true);
  await fetchNoted(url);
  say(false);
  expect(isOffline()).toBe(true);
});
