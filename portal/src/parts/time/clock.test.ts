import { afterEach, expect, test } from '@jest/globals';
import { now, setClock } from './clock.ts';

afterEach(() => setClock(new Date().toUTCString()));

test('the time is that of the service, whatever the clock of the browser is', () => {
  const served = Date.parse('2031-05-01T00:00:00Z');
  setClock(new Date(served).toUTCString());
  const from = Date.now();
  expect(now()).toBeGreaterThanOrEqual(served);
  expect(now()).toBeLessThanOrEqual(served + Date.now() - from + 1_000);
});

test('a response without a date leaves the time as it is', () => {
  const served = '2031-05-01T00:00:00Z';
  setClock(served);
  setClock(null);
  expect(new Date(now()).getUTCFullYear()).toBe(2031);
});
