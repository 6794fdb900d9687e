import { expect, test } from '@jest/globals';
import { NoPermit, Permits } from './permits.ts';

const LONG_MS = 600_000;

test('waiting callers get permits in order, and each permit counts once', async () => {
  const permits = new Permits({ size: 1, maxWaiting: 2, waitMs: LONG_MS });
  const first = await permits.take();
  const order: string[] = [];
  const second = permits.take().then((release) => {
    order.push('second');
    return release;
  });
  const third = permits.take().then((release) => {
    order.push('third');
    return release;
  });
  expect(permits.tryTake()).toBeUndefined();
  await expect(permits.take()).rejects.toThrow(NoPermit);
  first();
  first();
  (await second)();
  (await third)();
  expect(order).toEqual(['second', 'third']);
  expect([permits.used(), permits.waiting()]).toEqual([0, 0]);
});

test('no caller waits longer than the limit', async () => {
  const permits = new Permits({ size: 1, maxWaiting: 1, waitMs: 1 });
  const release = await permits.take();
  await expect(permits.take()).rejects.toThrow(NoPermit);
  expect(permits.waiting()).toBe(0);
  release();
  expect(permits.used()).toBe(0);
});

test('callers who leave stop waiting, and get no permit', async () => {
  const permits = new Permits({ size: 1, maxWaiting: 1, waitMs: LONG_MS });
  const release = await permits.take();
  const leaving = new AbortController();
  const left = permits.take({ signal: leaving.signal });
  const reason = new Error('left');
  leaving.abort(reason);
  await expect(left).rejects.toBe(reason);
  release();
  expect(permits.used()).toBe(0);
  await expect(permits.take({ signal: leaving.signal })).rejects.toBe(reason);
});
