import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { DeliveryState } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { createShopBytes, type ShopBytes } from './shop-bytes.ts';

describe('the byte limit of a shop', () => {
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

describe('deliveries over the byte limit', () => {
  /** A process that has just started sends as if it owned a quarter of all shards. */
  const PER_MINUTE = 4 * 64 * 1024;
  const EVENTS = 100;

  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;
  /** The clock of the minutes. It does not advance. */
  let nowMs = 0;

  beforeAll(async () => {
    webhooks = await runWebhooks({
      WEBHOOK_SHOP_BYTES_PER_MINUTE: PER_MINUTE,
      shopBytesNow: () => nowMs,
    });
  });
  afterAll(() => webhooks.stop());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  const events = (shopId: bigint, count: number) =>
    Array.from({ length: count }, () => sampleEvent('return.closed', shopId));
  const arrived = (path: string) => receiver.received.filter((one) => one.path === path);
  const bytesOf = (path: string): number =>
    arrived(path).reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
  const gauge = async (name: string): Promise<number> =>
    Number(new RegExp(`^${name}\\S* (\\d+)`, 'm').exec(await webhooks.metrics())?.[1]);

  test('deliveries over the byte limit wait for the next minute, without attempts, without memory and without effect on other shops', async () => {
    const [busy, other] = [newShop(), newShop()];
    await webhooks.subscribe({ shopId: busy, url: `${receiver.url}/busy` });
    await webhooks.subscribe({ shopId: other, url: `${receiver.url}/other` });
    await webhooks.publish(...events(busy, EVENTS));
    await webhooks.publish(...events(other, 5));
    await until(() => arrived('/hook/other').length === 5);
    await until(async () => (await gauge('webhooks_shops_throttled')) === 1);

    // Its queue is no longer in memory.
    await until(async () => (await gauge('webhooks_queues_active')) === 0);
    expect(bytesOf('/hook/busy')).toBeLessThanOrEqual(PER_MINUTE);
    const { length: first } = arrived('/hook/busy');
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(EVENTS);
    const waiting = (await webhooks.deliveries(busy)).filter(
      ({ state }) => state === DeliveryState.WAITING,
    );
    expect(waiting).toHaveLength(EVENTS - first);
    expect(waiting.flatMap(({ attempts }) => attempts)).toEqual([]);

    // A shop that starts later is served, and further events do not wake the throttled one again and again.
    await webhooks.publish(...events(busy, 1));
    await webhooks.publish(...events(other, 5));
    await until(() => arrived('/hook/other').length === 10);
    await until(async () => (await gauge('webhooks_queues_active')) === 0);
    expect(arrived('/hook/busy')).toHaveLength(first);

    while (arrived('/hook/busy').length <= EVENTS) {
      const before = arrived('/hook/busy').length;
      nowMs += 60_000;
      webhooks.advance(61);
      await until(() => arrived('/hook/busy').length > before);
      await until(
        async () =>
          arrived('/hook/busy').length > EVENTS || (await gauge('webhooks_shops_throttled')) === 1,
      );
    }
    const all = await until(async () => {
      const deliveries = await webhooks.deliveries(busy);
      return deliveries.every(({ state }) => state === DeliveryState.DELIVERED) && deliveries;
    });
    expect(all).toHaveLength(EVENTS + 1);
    expect(all.every(({ attempts }) => attempts.length === 1)).toBe(true);
    expect(new Set(arrived('/hook/busy').map(({ headers }) => headers['webhook-id'])).size).toBe(
      EVENTS + 1,
    );
  });
});
