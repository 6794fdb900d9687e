import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { fetchNoted, isOffline } from './network.ts';

const server = createServer((_req, res) => res.end());
beforeAll(() => new Promise<void>((done) => void server.listen(0, '127.0.0.1', done)));
afterAll(() => server.close());

const say = (onLine: boolean) =>
  Object.defineProperty(navigator, 'onLine', { value: onLine, configurable: true });

test('an answer counts for more than a browser that says it is offline', async () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
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
