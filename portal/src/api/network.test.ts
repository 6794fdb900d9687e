import { afterAll, expect, test } from '@jest/globals';
import { sayOnLine } from '../../../test/kit/portal/on-line.ts';
import { fetchNoted, isOffline } from './network.ts';

afterAll(() => sayOnLine(true));

test('an answer counts for more than a browser that says it is offline', async () => {
  const url = 'data:,an answer';
  sayOnLine(false);
  expect(isOffline()).toBe(true);
  await fetchNoted(url);
  expect(isOffline()).toBe(false);
  // A call that fails then was perhaps sent.
  await expect(fetchNoted('http://127.0.0.1:1')).rejects.toThrow();
  expect(isOffline()).toBe(false);
  sayOnLine(true);
  await fetchNoted(url);
  sayOnLine(false);
  expect(isOffline()).toBe(true);
});
