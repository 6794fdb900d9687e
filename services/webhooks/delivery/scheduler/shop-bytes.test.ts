import { beforeEach, describe, expect, test } from '@jest/globals';
import { createShopBytes, type ShopBytes } from './shop-bytes.ts';

const MIB = 1024 * 1024;
const OVERHEAD = 1_024;
let nowMs: number;
let share: number;
let throttled: bigint[];
let bytes: ShopBytes;

beforeEach(() => {
  nowMs = 1_000;
  share = 1;
  throttled = [];
  bytes = createShopBytes({
    perMinute: 8 * MIB,
    share: () => share,
    onLimitReached: (shopId) => throttled.push(shopId),
    now: () => nowMs,
  });
});

/** How many requests of 1 MiB are allowed until one must wait; 100 if none must. */
function countUntilWait(shopId: bigint): number {
  let count = 0;
  while (count < 100 && bytes.take(shopId, MIB - OVERHEAD)) count += 1;
  return count;
}

describe('the byte limit of a shop', () => {
  test('is reached within a minute, and starts again with the next', () => {
    expect(countUntilWait(1n)).toBe(8);
    expect(bytes.waitMs(1n)).toBe(60_000);
    nowMs += 59_999;
    expect([bytes.take(1n, 1), bytes.waitMs(1n)]).toEqual([false, 1]);
    nowMs += 1;
    expect([bytes.waitMs(1n), countUntilWait(1n)]).toEqual([0, 8]);
    expect(throttled).toEqual([1n, 1n]);
  });

  test('does not affect other shops', () => {
    countUntilWait(1n);
    expect(bytes.throttled()).toBe(1);
    expect([bytes.waitMs(2n), countUntilWait(2n)]).toEqual([0, 8]);
    expect(bytes.throttled()).toBe(2);
  });

  test('once reached, delays small requests too, so that none overtakes', () => {
    bytes.take(1n, 7 * MIB);
    expect(bytes.take(1n, 2 * MIB)).toBe(false);
    expect(bytes.take(1n, 1)).toBe(false);
  });

  test('allows the first request, however large', () => {
    expect(bytes.take(1n, 24 * MIB)).toBe(true);
    expect(bytes.take(1n, 1)).toBe(false);
  });

  test('counts the headers of empty requests', () => {
    let count = 0;
    while (count < 8 * MIB && bytes.take(1n, 0)) count += 1;
    expect(count).toBe((8 * MIB) / OVERHEAD);
  });

  test('is divided among processes like the shards, down to a quarter', () => {
    share = 1 / 2;
    expect(countUntilWait(1n)).toBe(4);
    share = 0;
    expect(countUntilWait(2n)).toBe(2);
  });
});
