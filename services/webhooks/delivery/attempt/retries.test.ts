import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  DeliveryState,
  SubscriptionStatus,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { ATTEMPT_MS } from '../../sender/send.ts';
import {
  createRetrySlots,
  pauseAfter,
  RETRIES_PER_SECOND,
  reschedulePause,
} from './retry-schedule.ts';

describe('retries', () => {
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  beforeAll(async () => {
    webhooks = await runWebhooks();
  });
  afterAll(() => webhooks.stop());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  const HOUR = 3_600;
  const DAY = 24 * HOUR;
  /** For each pause, a time that is longer than the pause with its whole jitter, in order. Seconds. */
  const PAUSES = [6, 36, 360, 2_160, 2.4 * HOUR, 6 * HOUR, 12 * HOUR, 16.8 * HOUR, DAY, 1.2 * DAY];

  /** How far this file has moved the retry clock. Seconds. */
  let ahead = 0;

  function advance(seconds: number): void {
    ahead += seconds;
    webhooks.advance(seconds);
  }

  /** One event to one subscription of a new shop. */
  async function deliverOne() {
    const shopId = newShop();
    const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    return { shopId, id };
  }

  /** The shop's only delivery, after this many attempts. */
  function written(shopId: bigint, attempts: number) {
    return until(async () => {
      const [delivery] = await webhooks.deliveries(shopId);
      return delivery?.attempts.length === attempts && delivery;
    });
  }

  /** The pause after the last attempt, and the time at which the retry clock makes the next one due. Seconds. */
  async function retryOf(shopId: bigint): Promise<{ pause: number; dueAt: number }> {
    const { rows } = await webhooks.db.pool.query<{ pause: number; dueAt: number }>(
      `select extract(epoch from next_attempt_at - scheduled_at)::float8 as pause,
            extract(epoch from next_attempt_at)::float8 - $2 as "dueAt"
       from queue where shop_id = $1`,
      [shopId, ahead],
    );
    return rows[0] ?? { pause: 0, dueAt: 0 };
  }

  async function subscription(shopId: bigint) {
    return (await webhooks.client.listSubscriptions({ shopId, actor })).subscriptions[0];
  }

  describe('a failed attempt', () => {
    test('is repeated with the same id and bytes until it succeeds', async () => {
      receiver.answer = (response, _, nth) => {
        response.writeHead(nth < 3 ? 500 : 204).end();
      };
      const { shopId } = await deliverOne();
      await written(shopId, 1);
      expect(receiver.received).toHaveLength(1);
      advance(6);
      await written(shopId, 2);
      advance(36);
      const delivery = await written(shopId, 3);
      expect(delivery.state).toBe(DeliveryState.DELIVERED);
      expect(delivery.attempts.map((attempt) => attempt.status)).toEqual([500, 500, 204]);
      const [first, ...others] = receiver.received;
      for (const [index, other] of others.entries()) {
        expect(other.body).toBe(first?.body);
        expect(other.headers['webhook-id']).toBe(first?.headers['webhook-id']);
        const startedAt = Number(delivery.attempts[index + 1]?.startedAt?.seconds);
        expect(Math.abs(Number(other.headers['webhook-timestamp']) - startedAt)).toBeLessThan(30);
      }
    });

    test('is repeated ten times, then stays as exhausted and can be replayed', async () => {
      receiver.answer = (response) => void response.writeHead(503).end();
      const { shopId } = await deliverOne();
      for (const [index, pause] of PAUSES.entries()) {
        const waiting = await written(shopId, index + 1);
        expect(waiting.state).toBe(DeliveryState.WAITING);
        advance(pause);
      }
      const exhausted = await written(shopId, 11);
      expect(exhausted.state).toBe(DeliveryState.EXHAUSTED);
      expect(exhausted.nextAttemptAt).toBeUndefined();
      advance(10 * DAY);

      receiver.answer = (response) => void response.writeHead(200).end();
      await webhooks.client.replayDelivery({ shopId, actor, deliveryId: exhausted.id });
      const replayed = await written(shopId, 12);
      expect(replayed).toMatchObject({ id: exhausted.id, state: DeliveryState.DELIVERED });
      expect(receiver.received).toHaveLength(12);
      expect(receiver.received[11]?.headers['webhook-id']).toBe(exhausted.id);
      expect(receiver.received[11]?.body).toBe(receiver.received[0]?.body);
    });

    test.each([301, 302, 307, 400, 404, 500])('is a response with status %i', async (status) => {
      receiver.answer = (response) => {
        response.writeHead(status, { location: receiver.url }).end('why');
      };
      const { shopId } = await deliverOne();
      const { attempts, state } = await written(shopId, 1);
      expect(state).toBe(DeliveryState.WAITING);
      expect(attempts[0]).toMatchObject({
        status,
        error: `answered ${status}`,
        responseExcerpt: 'why',
      });
      expect(receiver.received).toHaveLength(1);
    });
  });

  /** Tolerance for a date, because the result of an attempt may be recorded late. Seconds. */
  const LATE = 60;

  describe('Retry-After', () => {
    test.each([
      ['seconds, when later than the schedule', '120', 120],
      ['seconds, when earlier than the schedule', '1', 5],
      ['more than a day', '999999999999', DAY],
      ['garbage', 'soon', 5],
      ['a date that is past', 'Wed, 21 Oct 2015 07:28:00 GMT', 5],
    ])('%s', async (_, value, promised) => {
      receiver.answer = (response) => void response.writeHead(429, { 'retry-after': value }).end();
      const { shopId } = await deliverOne();
      await written(shopId, 1);
      const { pause } = await retryOf(shopId);
      expect(pause).toBeGreaterThanOrEqual(promised);
      expect(pause).toBeLessThanOrEqual(1.2 * promised);
    });

    test('as an HTTP date', async () => {
      const at = new Date(Date.now() + 600_000).toUTCString();
      receiver.answer = (response) => void response.writeHead(503, { 'retry-after': at }).end();
      const { shopId } = await deliverOne();
      await written(shopId, 1);
      const { dueAt } = await retryOf(shopId);
      expect(dueAt).toBeGreaterThanOrEqual(Date.parse(at) / 1_000 - 1);
      expect(dueAt).toBeLessThan(Date.parse(at) / 1_000 + LATE);
    });
  });

  describe('410 Gone', () => {
    test('deactivates the subscription immediately and holds waiting deliveries', async () => {
      receiver.answer = (response) => void response.writeHead(410).end();
      const { shopId } = await deliverOne();
      const delivery = await written(shopId, 1);
      expect(delivery.state).toBe(DeliveryState.HELD);
      expect(await subscription(shopId)).toMatchObject({
        status: SubscriptionStatus.INACTIVE,
        inactiveReason: 'the endpoint answered 410 Gone',
      });
      await webhooks.publish(sampleEvent('return.closed', shopId));
      expect(await webhooks.deliveries(shopId)).toHaveLength(1);
    });
  });

  test('410 Gone of a former address does not affect the new one', async () => {
    let answer = (_status: number): void => {};
    receiver.answer = (response) => {
      answer = (status) => void response.writeHead(status).end();
    };
    const { shopId, id: subscriptionId } = await deliverOne();
    await until(() => receiver.received.length === 1);
    const moved = await startReceiver();
    const fields = { topic: 'return', trigger: 'return.closed', url: moved.url };
    await webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...fields });
    answer(410);
    await written(shopId, 1);
    expect(await subscription(shopId)).toMatchObject({ status: SubscriptionStatus.ACTIVE });
    await moved.stop();
  });

  describe('only failures', () => {
    test('for five days, and ten of them, deactivate the subscription', async () => {
      receiver.answer = (response) => void response.writeHead(500).end();
      const { shopId, id } = await deliverOne();
      await written(shopId, 1);
      await webhooks.db.pool.query(
        `update subscriptions set failures = 9 where shop_id = $1 and id = $2`,
        [shopId, id],
      );
      advance(6);
      await written(shopId, 2);
      expect(await subscription(shopId)).toMatchObject({ status: SubscriptionStatus.ACTIVE });
      advance(5 * DAY);
      const held = await written(shopId, 3);
      expect(held.state).toBe(DeliveryState.HELD);
      expect(await subscription(shopId)).toMatchObject({
        status: SubscriptionStatus.INACTIVE,
        inactiveReason: 'only failures for 5 days',
      });
    });

    test('for five days are not enough when there are fewer than ten', async () => {
      receiver.answer = (response) => void response.writeHead(500).end();
      const { shopId } = await deliverOne();
      await written(shopId, 1);
      advance(6 * DAY);
      expect((await written(shopId, 2)).state).toBe(DeliveryState.WAITING);
      expect(await subscription(shopId)).toMatchObject({ status: SubscriptionStatus.ACTIVE });
    });

    test('do not add up across a success', async () => {
      receiver.answer = (response, _, nth) => void response.writeHead(nth === 1 ? 500 : 200).end();
      const { shopId } = await deliverOne();
      await written(shopId, 1);
      advance(6);
      await written(shopId, 2);
      const { rows } = await webhooks.db.pool.query(
        'select failures, failing_since from subscriptions where shop_id = $1',
        [shopId],
      );
      expect(rows).toEqual([{ failures: 0, failing_since: null }]);
    });
  });
});

const HOUR_MS = 3_600_000;
const SCHEDULE_MS = [
  5_000,
  30_000,
  300_000,
  1_800_000,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

test('an attempt has a total limit of 15 seconds', () => {
  expect(ATTEMPT_MS).toBe(15_000);
});

describe('the retry schedule', () => {
  test('has ten pauses, each with up to a fifth more', () => {
    expect(SCHEDULE_MS).toHaveLength(10);
    SCHEDULE_MS.forEach((pause, index) => {
      expect(pauseAfter(index + 1, undefined, () => 0)).toBe(pause);
      expect(pauseAfter(index + 1, undefined, () => 0.999_999)).toBeLessThanOrEqual(
        (pause * 6) / 5,
      );
    });
    expect(pauseAfter(11, undefined)).toBeUndefined();
  });

  test('is never shortened, and follows Retry-After up to a day', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.option(fc.nat({ max: 10 * 24 * HOUR_MS }), { nil: undefined }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failed, asked, random) => {
          const pause = pauseAfter(failed, asked, () => random) ?? 0;
          expect(pause).toBeGreaterThanOrEqual(SCHEDULE_MS[failed - 1] ?? 0);
          expect(pause).toBeGreaterThanOrEqual(Math.min(asked ?? 0, 24 * HOUR_MS));
          expect(pause).toBeLessThanOrEqual((6 * 24 * HOUR_MS) / 5);
        },
      ),
    );
  });
});

test('a delivery that cannot be sent is rescheduled by a minute, then by more, up to ten', () => {
  let waited = 0;
  const pauses = Array.from({ length: 6 }, () => {
    const pause = reschedulePause(waited);
    waited += pause;
    return pause / 60_000;
  });
  expect(pauses).toEqual([1, 1, 2, 4, 8, 10]);
});

const perSecondOf = (atMs: readonly number[]): number[] => {
  const seconds = Map.groupBy(atMs, (ms) => Math.floor(ms / 1_000));
  return [...seconds.values()].map((all) => all.length);
};

describe('the retries of endpoints that fail together', () => {
  test('are limited to a number per second, never before their pause and never much later', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: 5_000 }, () => slots.take(5_400));
    expect(Math.max(...perSecondOf(pauses))).toBe(RETRIES_PER_SECOND);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(5_400);
    expect(Math.max(...pauses)).toBeLessThan(5_400 + 101_000);
  });

  test('keep their pause while they are few', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: RETRIES_PER_SECOND }, () => slots.take(30_000));
    expect(new Set(pauses)).toEqual(new Set([30_000]));
  });

  test('with longer pauses are not changed, because they have more jitter', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: 500 }, () => slots.take(1_800_000));
    expect(new Set(pauses)).toEqual(new Set([1_800_000]));
  });

  test('are never delayed by more than five minutes, however many there are', () => {
    const slots = createRetrySlots(() => 0);
    const pauses = Array.from({ length: 40_000 }, () => slots.take(5_000));
    expect(Math.max(...pauses)).toBeLessThanOrEqual(306_000);
  });

  test('are never earlier than requested, whenever they fail', () => {
    const steps = fc.array(
      fc.record({ passMs: fc.nat(3_000), pauseMs: fc.integer({ min: 1, max: 500_000 }) }),
      { maxLength: 300 },
    );
    fc.assert(
      fc.property(steps, (all) => {
        let nowMs = 0;
        const slots = createRetrySlots(() => nowMs);
        for (const { passMs, pauseMs } of all) {
          nowMs += passMs;
          expect(slots.take(pauseMs)).toBeGreaterThanOrEqual(pauseMs);
        }
      }),
    );
  });
});
