import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type AttemptEffect,
  afterAttempt,
  type EndpointHealth,
  NEW_ENDPOINT,
  pausedUntil,
  probePause,
} from './circuit-breaker.ts';
import { MAX_IN_FLIGHT } from './in-flight-limit.ts';

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
