import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
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
import {
  type AttemptEffect,
  afterAttempt,
  type EndpointHealth,
  MAX_IN_FLIGHT,
  NEW_ENDPOINT,
  pausedUntil,
  probePause,
} from './circuit-breaker.ts';

describe('circuit', () => {
  let webhooks: WebhooksUnderTest;

  beforeAll(async () => {
    webhooks = await runWebhooks();
  });
  afterAll(() => webhooks.stop());

  const BACKLOG = 12;
  const HOUR = 3_600;

  interface Down {
    readonly receiver: Receiver;
    readonly shopId: bigint;
    readonly id: bigint;
    readonly isOpen: () => Promise<boolean>;
  }

  /** An endpoint with an open circuit and waiting deliveries. */
  async function goDown(): Promise<Down> {
    const receiver = await startReceiver();
    receiver.answer = (response) => void response.writeHead(500).end();
    const shopId = newShop();
    const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
    const publish = (count: number) =>
      webhooks.publish(
        ...Array.from({ length: count }, () => sampleEvent('return.closed', shopId)),
      );
    await publish(5);
    await until(() => receiver.received.length === 5);
    // The circuit opens only after five seconds of failures.
    webhooks.advance(6);
    await until(() => receiver.received.length >= 10);
    const isOpen = async () => {
      const { rows } = await webhooks.db.pool.query<{ open: boolean }>(
        'select circuit_opened_at is not null as open from endpoints where shop_id = $1',
        [shopId],
      );
      return rows[0]?.open ?? false;
    };
    await until(isOpen);
    await publish(BACKLOG - 5);
    return { receiver, shopId, id, isOpen };
  }

  /** How many attempts each delivery of the shop used. */
  async function attemptsOf(shopId: bigint): Promise<number[]> {
    return (await webhooks.deliveries(shopId)).map(({ attempts }) => attempts.length);
  }

  describe('an open circuit', () => {
    test('keeps the backlog waiting: only probes are sent', async () => {
      const { receiver, shopId } = await goDown();
      const before = receiver.received.length;
      // Half an hour in steps. The oldest delivery follows the schedule, the others wait for probes.
      for (let minute = 0; minute < 30; minute += 1) webhooks.advance(60);
      await until(() => receiver.received.length > before);
      webhooks.advance(1);
      const fresh = (await attemptsOf(shopId)).slice(0, BACKLOG - 5);
      expect(fresh.filter((count) => count === 0).length).toBeGreaterThanOrEqual(BACKLOG - 7);
      expect(receiver.received.length - before).toBeLessThanOrEqual(8);
      // On a slow machine the query for the metric may time out. Then the test repeats it.
      await until(async () => /^webhooks_circuits_open\S* [1-9]/m.test(await webhooks.metrics()));
      await receiver.stop();
    });

    test('closes with the first success, and all waiting deliveries are sent immediately', async () => {
      const { receiver, shopId, isOpen } = await goDown();
      receiver.answer = (response) => void response.writeHead(200).end();
      webhooks.advance(61);
      await until(async () => !(await isOpen()));
      // Deliveries that failed before wait for their own time.
      webhooks.advance(HOUR);
      await until(async () =>
        (await webhooks.deliveries(shopId)).every((one) => one.state === DeliveryState.DELIVERED),
      );
      const ids = new Set(receiver.received.map((one) => one.headers['webhook-id']));
      expect(ids.size).toBe(BACKLOG);
      await receiver.stop();
    });

    test('is reset when a user activates the subscription again', async () => {
      const { receiver, shopId, id: subscriptionId, isOpen } = await goDown();
      receiver.answer = (response) => void response.writeHead(200).end();
      const set = (status: SubscriptionStatus) =>
        webhooks.client.updateSubscription({
          shopId,
          actor,
          subscriptionId,
          topic: 'return',
          trigger: 'return.closed',
          url: receiver.url,
          status,
        });
      await set(SubscriptionStatus.INACTIVE);
      await set(SubscriptionStatus.ACTIVE);
      await until(async () =>
        (await attemptsOf(shopId)).slice(0, BACKLOG - 5).every((n) => n === 1),
      );
      expect(await isOpen()).toBe(false);
      await receiver.stop();
    });

    test('is also reset while another subscription of the address has an attempt in flight', async () => {
      const { receiver, shopId, id: subscriptionId } = await goDown();
      await webhooks.subscribe({ shopId, url: receiver.url, trigger: 'return.created' });
      const set = (status: SubscriptionStatus) =>
        webhooks.client.updateSubscription({
          shopId,
          actor,
          subscriptionId,
          topic: 'return',
          trigger: 'return.closed',
          url: receiver.url,
          status,
        });
      await set(SubscriptionStatus.INACTIVE);
      // The receiver no longer responds.
      receiver.answer = () => {};
      const before = receiver.received.length;
      await webhooks.publish(sampleEvent('return.created', shopId));
      await until(() => receiver.received.length === before + 1);
      await set(SubscriptionStatus.ACTIVE);
      await until(() => receiver.received.length === before + 2);
      await receiver.stop();
    });

    test('delays no other endpoint', async () => {
      const { receiver, isOpen } = await goDown();
      const other = await startReceiver();
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: other.url });
      await webhooks.publish(sampleEvent('return.closed', shopId));
      await until(() => other.received.length === 1);
      expect(await isOpen()).toBe(true);
      await Promise.all([receiver.stop(), other.stop()]);
    });
  });

  describe('a subscription with only failures', () => {
    test('gets one warning at each percentage of the time', async () => {
      const receiver = await startReceiver();
      receiver.answer = (response) => void response.writeHead(500).end();
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      await webhooks.publish(sampleEvent('return.closed', shopId));
      await until(async () => (await attemptsOf(shopId))[0] === 1);
      const { pool } = webhooks.db;
      const percent = async () => {
        const { rows } = await pool.query<{ percent: number }>(
          'select warned_percent as percent from subscriptions where shop_id = $1',
          [shopId],
        );
        return rows[0]?.percent;
      };
      const failFor = async (share: number, nth: number) => {
        await pool.query(
          `update subscriptions set failures = 20, failing_since = now() + $3 * interval '1 s' - $2 * interval '5 days'
          where shop_id = $1`,
          [shopId, share, ahead],
        );
        advance(12 * HOUR);
        await until(async () => (await attemptsOf(shopId))[0] === nth);
      };
      let ahead = Number((await retryClock()) ?? 0);
      const advance = (seconds: number) => {
        ahead += seconds;
        webhooks.advance(seconds);
      };
      await failFor(0.3, 2);
      expect(await percent()).toBe(0);
      await failFor(0.45, 3);
      expect(await percent()).toBe(50);
      await failFor(0.65, 4);
      expect(await percent()).toBe(70);
      await failFor(0.85, 5);
      expect(await percent()).toBe(90);
      expect(await webhooks.metrics()).toMatch(
        /^webhooks_subscriptions_warned\S*percent="90"\S* 1$/m,
      );
      receiver.answer = (response) => void response.writeHead(200).end();
      advance(24 * HOUR);
      await until(async () => (await percent()) === 0);
      await receiver.stop();
    });

    /** How far the retry clock is ahead, according to a delivery that was queued now. Seconds. */
    async function retryClock(): Promise<number | undefined> {
      const { rows } = await webhooks.db.pool.query<{ ahead: number }>(
        `select extract(epoch from q.queued_at - d.created_at)::float8 as ahead
         from queue q join deliveries d on d.shop_id = q.shop_id and d.id = q.id
        order by q.queued_at desc limit 1`,
      );
      return rows[0]?.ahead;
    }
  });
});

const failures = fc.constantFrom<Pick<AttemptEffect, 'kind' | 'status'>>(
  { kind: 'failed', status: 0 },
  { kind: 'failed', status: 404 },
  { kind: 'failed', status: 503 },
  { kind: 'timeout', status: 0 },
  { kind: 'throttled', status: 429 },
  { kind: 'gone', status: 410 },
);
const success = { kind: 'delivered', status: 200 } as const;
const attempts = fc.array(
  fc.record({
    what: fc.oneof({ arbitrary: failures, weight: 3 }, fc.constant(success)),
    deliveryId: fc.constantFrom('a', 'b', 'c', 'd'),
    pauseMs: fc.nat(3_000),
  }),
  { maxLength: 60 },
);

/** The endpoint after each attempt. */
function courseOf(steps: typeof attempts extends fc.Arbitrary<infer T> ? T : never) {
  let atMs = 1_000_000;
  let health: EndpointHealth = NEW_ENDPOINT;
  return steps.map(({ what, deliveryId, pauseMs }) => {
    atMs += pauseMs;
    const before = health;
    const effect = { ...what, deliveryId, atMs };
    health = afterAttempt(before, effect);
    return { before, effect, health };
  });
}

describe('the limit of attempts in flight', () => {
  test('starts at 2, grows by one per success up to 8, is halved on overload and never below 1', () => {
    expect(NEW_ENDPOINT.maxInFlight).toBe(2);
    fc.assert(
      fc.property(attempts, (steps) => {
        for (const { before, effect, health } of courseOf(steps)) {
          const { maxInFlight } = health;
          expect(maxInFlight).toBeGreaterThanOrEqual(1);
          expect(maxInFlight).toBeLessThanOrEqual(MAX_IN_FLIGHT);
          const isOverload =
            effect.kind === 'timeout' || effect.kind === 'throttled' || effect.status >= 500;
          if (effect.kind === 'delivered') {
            expect(maxInFlight).toBe(
              before.circuit ? 2 : Math.min(before.maxInFlight + 1, MAX_IN_FLIGHT),
            );
          } else if (isOverload) {
            expect(maxInFlight).toBe(Math.max(1, Math.floor(before.maxInFlight / 2)));
          } else expect(maxInFlight).toBe(before.maxInFlight);
        }
      }),
    );
  });
});

describe('the circuit', () => {
  test('opens after ten failures in a row of three deliveries over five seconds, and closes with a success', () => {
    fc.assert(
      fc.property(attempts, (steps) => {
        let row: AttemptEffect[] = [];
        for (const { effect, health } of courseOf(steps)) {
          row = effect.kind === 'delivered' ? [] : [...row, effect];
          const over = effect.atMs - (row[0]?.atMs ?? effect.atMs);
          const isDown =
            row.length >= 10 &&
            new Set(row.map((one) => one.deliveryId)).size >= 3 &&
            over >= 5_000;
          expect(health.circuit !== null).toBe(isDown);
          expect(health.failures).toBe(row.length);
        }
      }),
    );
  });

  test('closes with one success, and the endpoint starts again', () => {
    let health: EndpointHealth = NEW_ENDPOINT;
    for (let n = 0; n < 10; n += 1) {
      health = afterAttempt(health, {
        kind: 'failed',
        status: 500,
        deliveryId: `${n}`,
        atMs: n * 1_000,
      });
    }
    expect(health.circuit).not.toBeNull();
    const closed = afterAttempt(health, { ...success, deliveryId: '0', atMs: 60_000 });
    expect(closed).toEqual(NEW_ENDPOINT);
  });

  test('is probed every 30 s at first, later after a tenth of the outage, at least every ten minutes', () => {
    fc.assert(
      fc.property(fc.nat(10 * 24 * 3_600_000), (openForMs) => {
        const pause = probePause(openForMs);
        expect(pause).toBeCloseTo(Math.min(Math.max(30_000, openForMs / 10), 600_000), 6);
      }),
    );
  });

  test('keeps the time at which it opened while attempts fail', () => {
    const down = { kind: 'timeout', status: 0 } as const;
    let health: EndpointHealth = NEW_ENDPOINT;
    for (let n = 0; n < 20; n += 1) {
      health = afterAttempt(health, { ...down, deliveryId: `${n}`, atMs: n * 1_000 });
    }
    expect(health.circuit).toEqual({ openedAtMs: 9_000, pausedUntilMs: 19_000 + 30_000 });
  });
});

describe('a clock that was set back by an hour', () => {
  const HOUR_MS = 3_600_000;
  const down = { kind: 'timeout', status: 0 } as const;
  /** Fails until a time by the clock before the step. */
  function downAt(untilMs: number, count: number): EndpointHealth {
    let health: EndpointHealth = NEW_ENDPOINT;
    for (let n = count - 1; n >= 0; n -= 1) {
      health = afterAttempt(health, { ...down, deliveryId: `${n}`, atMs: untilMs - n * 1_000 });
    }
    return health;
  }

  test('does not delay the probe of an open circuit', () => {
    fc.assert(
      fc.property(fc.nat(10 * 24 * HOUR_MS), (openForMs) => {
        const openedAtMs = 1_000_000;
        const atMs = openedAtMs + openForMs;
        const circuit = { openedAtMs, pausedUntilMs: atMs + probePause(openForMs) };
        expect(pausedUntil(circuit, atMs)).toBe(circuit.pausedUntilMs);
        expect(pausedUntil(circuit, circuit.pausedUntilMs + 1)).toBe(circuit.pausedUntilMs);
        expect(pausedUntil(circuit, atMs - HOUR_MS)).toBe(atMs - HOUR_MS);
      }),
    );
  });

  test('does not prevent a circuit from opening', () => {
    let health = downAt(2 * HOUR_MS, 9);
    expect(health.circuit).toBeNull();
    for (const atMs of [HOUR_MS, HOUR_MS + 6_000]) {
      health = afterAttempt(health, { ...down, deliveryId: 'later', atMs });
    }
    expect(health.circuit).toMatchObject({ openedAtMs: HOUR_MS + 6_000 });
  });

  test('counts the outage of an open circuit from the next failure', () => {
    const { circuit } = afterAttempt(downAt(2 * HOUR_MS, 10), {
      ...down,
      deliveryId: 'later',
      atMs: HOUR_MS,
    });
    expect(circuit).toEqual({ openedAtMs: HOUR_MS, pausedUntilMs: HOUR_MS + 30_000 });
  });
});
