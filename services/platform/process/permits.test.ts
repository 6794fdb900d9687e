import { expect, test } from '@jest/globals';
import { until } from '../../../test/kit/until.ts';
import { isOverloaded } from '../values/errors.ts';
import { createShopPermits, NoPermit, Permits } from './permits.ts';

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

const OPTIONS = { size: 2, maxWaiting: 2, waitMs: 600_000, perShop: { size: 1, maxWaiting: 3 } };

function bench() {
  const permits = createShopPermits(OPTIONS);
  const order: string[] = [];
  const take = (shopId: bigint) => {
    const end = new AbortController();
    const taken = permits.takeUntil(shopId, end.signal).then(() => void order.push(`${shopId}`));
    return { taken, end: () => end.abort(new Error('left')) };
  };
  return { take, order };
}

test('one shop gets one permit, however many it requests; other shops are served in order', async () => {
  const { take, order } = bench();
  const greedy = [1n, 1n, 1n].map(take);
  await until(() => order.length === 1);
  const second = take(2n);
  await second.taken;
  const third = take(3n);
  greedy[0]?.end();
  await third.taken;
  second.end();
  await greedy[1]?.taken;
  expect(order).toEqual(['1', '2', '3', '1']);
  greedy[2]?.end();
  await expect(greedy[2]?.taken).rejects.toThrow('left');
});

test('the queue of a shop is limited, and full for that shop alone', async () => {
  const { take } = bench();
  const [first, ...waiting] = [1n, 1n, 1n, 1n].map(take);
  await first?.taken;
  const refused: unknown = await take(1n).taken.catch((error: unknown) => error);
  expect(isOverloaded(refused)).toBe(true);
  await take(2n).taken;
  for (const one of waiting) one.end();
  const left = await Promise.allSettled(waiting.map((one) => one.taken));
  expect(left.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  first?.end();
  await take(1n).taken;
});
