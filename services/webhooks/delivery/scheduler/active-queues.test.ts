import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { type EndpointHealth, NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import type { Due } from '../queue/read-due.ts';
import type { StoredQueue } from '../queue/ready-queues.ts';
import { beginRead, modeOf, noteRead, unloadingOf } from './active-queue.ts';
import { ActiveQueues } from './active-queues.ts';

const DOWN: EndpointHealth = {
  maxInFlight: 1,
  failures: 10,
  failingSinceMs: 0,
  failed: [],
  circuit: { openedAtMs: 0, pausedUntilMs: 30_000 },
};

const queueOf = (n: bigint, health = DOWN): StoredQueue => ({
  key: `1:${n}`,
  shopId: 1n,
  subscriptionId: n,
  endpointId: 5n,
  endpointKey: '1:5',
  shard: 5,
  health,
});

const SUCCESS = { kind: 'delivered', status: 200, deliveryId: 'd', atMs: 40_000 } as const;

describe('the health of an endpoint', () => {
  test('stays in memory while an attempt is open, even if its only queue is changed', () => {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    const leave = active.endpoints.keep('1:5');
    active.remove('1:1');
    expect(active.endpoints.note('1:5', SUCCESS)).toEqual({ health: NEW_ENDPOINT, isClosed: true });
    active.add(queueOf(1n));
    leave();
    expect(active.endpoints.health('1:5')).toEqual(NEW_ENDPOINT);
    active.remove('1:1');
    expect(active.endpoints.health('1:5')).toBeUndefined();
  });

  test('is read again after its shard was lost in between, whatever an older attempt reports', () => {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    const leave = active.endpoints.keep('1:5');
    active.keepOnly([4]);
    expect(active.queues.size).toBe(0);
    active.add(queueOf(1n, NEW_ENDPOINT));
    leave();
    expect(active.endpoints.health('1:5')).toEqual(NEW_ENDPOINT);
  });

  test('is reset by a user, and its queues are marked due', () => {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    for (const queue of active.due()) queue.hasDueWork = false;
    active.reset('1:5');
    expect(active.endpoints.health('1:5')).toEqual(NEW_ENDPOINT);
    expect(active.due()).toHaveLength(1);
  });
});

describe('a queue', () => {
  test('with another endpoint replaces the known one, and is read from its start', () => {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    for (const queue of active.due()) queue.hasDueWork = false;
    active.add(queueOf(1n));
    expect(active.due()).toEqual([]);
    active.add({ ...queueOf(1n, NEW_ENDPOINT), endpointId: 6n, endpointKey: '1:6', shard: 6 });
    expect(active.due()).toMatchObject([{ endpointId: 6n, shard: 6 }]);
    expect(active.endpoints.health('1:5')).toBeUndefined();
    expect(active.endpoints.health('1:6')).toEqual(NEW_ENDPOINT);
  });
});

describe('a busy queue', () => {
  /** A queue without due work, and whether it is due at a time. */
  function busyQueue() {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    for (const queue of active.due()) queue.hasDueWork = false;
    const startMs = performance.now();
    const clock = jest.spyOn(performance, 'now').mockReturnValue(startMs);
    const isDueAfter = (ms: number) => {
      clock.mockReturnValue(startMs + ms);
      const due = active.due();
      for (const queue of due) queue.hasDueWork = false;
      return due.length === 1;
    };
    return { active, isDueAfter };
  }
  afterEach(() => {
    jest.restoreAllMocks();
  });

  test('is due when each of its retries is, and only then', () => {
    const { active, isDueAfter } = busyQueue();
    for (const pauseMs of [30_000, 5_000, 5_500]) active.noteRetry('1:1', pauseMs);
    const times = [4_900, 5_100, 5_200, 5_600, 29_000, 30_100, 60_000];
    expect(times.filter(isDueAfter)).toEqual([5_100, 5_600, 30_100]);
  });

  test('keeps the times of the earliest retries only', () => {
    const { active, isDueAfter } = busyQueue();
    for (let nth = 100; nth > 0; nth -= 1) active.noteRetry('1:1', nth * 1_000);
    expect(active.queues.get('1:1')?.retriesAtMs).toHaveLength(32);
    expect(isDueAfter(1_100)).toBe(true);
    expect(isDueAfter(99_000)).toBe(true);
    expect(active.queues.get('1:1')?.retriesAtMs).toEqual([]);
  });
});

describe('the read cursor of a queue', () => {
  test.each([false, true])(
    'follows a clock of the database that was set back (retries: %s)',
    (isRetry) => {
      const active = new ActiveQueues();
      active.add(queueOf(1n));
      const queue = active.queues.get('1:1');
      if (!queue) throw new Error('it was added');
      const from = () => (isRetry ? beginRead(queue).retriesFromMs : beginRead(queue).freshFromMs);
      // Only this part is used.
      const read = (dueAtMs: number) => noteRead(queue, { isRetry, dueAtMs } as Due, dueAtMs);
      expect(from()).toBe(0);
      read(7_200_000);
      expect(from()).toBeGreaterThan(3_600_000);
      // After the next full scan.
      queue.fullScanAtMs = Number.NEGATIVE_INFINITY;
      expect(from()).toBe(0);
      read(3_600_000);
      expect(from()).toBeLessThan(3_600_000);
      expect(from()).toBeGreaterThan(0);
    },
  );

  test.each([
    ['a delivery that is due now', 50_000, 48_000],
    ['a delivery that has been due for a second', 49_000, 48_000],
    ['a delivery that has been due for long', 10_000, 10_000],
  ])('after %s: two seconds behind the clock, at most at the delivery', (_, dueAtMs, fromMs) => {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    const queue = active.queues.get('1:1');
    if (!queue) throw new Error('it was added');
    beginRead(queue);
    noteRead(queue, { isRetry: false, dueAtMs } as Due, 50_000);
    expect(beginRead(queue).freshFromMs).toBe(fromMs);
  });

  test('is never in the future, even after a fresh delivery from before the step', () => {
    const active = new ActiveQueues();
    active.add(queueOf(1n));
    const queue = active.queues.get('1:1');
    if (!queue) throw new Error('it was added');
    beginRead(queue);
    noteRead(queue, { isRetry: false, dueAtMs: 7_200_000 } as Due, 3_600_000);
    expect(beginRead(queue).freshFromMs).toBeLessThan(3_600_000);
  });
});

describe('a queue whose circuit is open', () => {
  const HOUR_MS = 3_600_000;
  const circuit = { openedAtMs: HOUR_MS, pausedUntilMs: HOUR_MS + 30_000 };
  const health = { ...DOWN, circuit };

  test.each([
    {
      what: 'before the probe',
      nowMs: HOUR_MS,
      mode: 'oldest-probe',
      pausedUntilMs: HOUR_MS + 30_000,
    },
    {
      what: 'at the probe',
      nowMs: HOUR_MS + 30_000,
      mode: 'any-probe',
      pausedUntilMs: HOUR_MS + 30_000,
    },
    { what: 'after the clock was set back', nowMs: 0, mode: 'any-probe', pausedUntilMs: 0 },
  ])('is read and unloaded for its probe: $what', ({ nowMs, mode, pausedUntilMs }) => {
    const active = new ActiveQueues();
    active.add(queueOf(1n, health));
    const queue = active.queues.get('1:1');
    if (!queue) throw new Error('it was added');
    expect(modeOf(health, nowMs)).toBe(mode);
    expect(unloadingOf(queue, health, nowMs)).toMatchObject({ pausedUntilMs });
  });
});
