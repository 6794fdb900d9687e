import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type pg from 'pg';
import type { ShardHolder } from '../../../platform/leases/shards.ts';
import { createRetryClock } from '../attempt/retry-schedule.ts';
import { type EndpointHealth, NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { QueueUnloader } from '../queue/queue-loader.ts';
import type { Due } from '../queue/read-due.ts';
import type { StoredQueue } from '../queue/ready-queues.ts';
import { beginRead, markDue, modeOf, noteRead, unloadingOf } from './active-queue.ts';
import { ActiveQueues } from './active-queues.ts';
import { InFlightAttempts } from './in-flight.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';

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

/** A queue of this process, and databases that return `rows` after they have called a function. */
function activeQueue(rows: readonly object[]) {
  const active = new ActiveQueues();
  const ids = { shopId: 1n, subscriptionId: 1n, endpointId: 1n, endpointKey: '1:1' };
  active.add({ ...ids, key: '1:1', shard: 1, health: NEW_ENDPOINT });
  const queue = active.queues.get('1:1');
  if (!queue) throw new Error('it was added');
  const databaseThat = (during: () => void) => {
    const query = async () => {
      during();
      return { rows };
    };
    return { query } as unknown as pg.Pool;
  };
  return { active, queue, databaseThat };
}

const ALL_SHARDS: Pick<ShardHolder, 'tokenOf'> = { tokenOf: () => 1n };

function schedulerOf(o: Pick<SchedulerOptions, 'active' | 'pool'>) {
  return new Scheduler({
    ...o,
    inFlight: new InFlightAttempts(),
    shards: ALL_SHARDS as ShardHolder,
    attempts: { start: () => {}, isShortOfSockets: () => false },
    loader: { postpone: async () => {} },
    holds: { waitMs: () => 0 },
    wakeLoop: { wake: () => {} },
    concurrency: 8,
    offsetMs: () => 0,
    retryNowMs: () => Date.now(),
    shopBytes: { take: () => true, waitMs: () => 0, throttled: () => 0 },
  });
}

test('a notification during the read of its queue is not lost', async () => {
  const { active, queue, databaseThat } = activeQueue([]);
  await schedulerOf({ active, pool: databaseThat(() => markDue(queue)) }).sendDue();
  expect(active.due()).toEqual([queue]);
});

test('a queue without due work is not read again until a notification arrives', async () => {
  const { active, queue, databaseThat } = activeQueue([]);
  await schedulerOf({ active, pool: databaseThat(() => {}) }).sendDue();
  expect(active.due()).toEqual([]);
  markDue(queue);
  expect(active.due()).toEqual([queue]);
});

test('a notification during the unloading of its queue keeps it loaded', async () => {
  const nothingDue = { shopId: 1n, subscriptionId: 1n, readyMs: null };
  const { active, queue, databaseThat } = activeQueue([nothingDue]);
  queue.hasDueWork = false;
  queue.idleSinceMs = Number.NEGATIVE_INFINITY;
  const unloaderOver = (pool: pg.Pool) =>
    new QueueUnloader({
      pool,
      active,
      inFlight: new InFlightAttempts(),
      clock: createRetryClock(),
      retryNowMs: () => Date.now(),
      onReadyAt: () => {},
      onMaybeReady: () => {},
    });
  await unloaderOver(databaseThat(() => markDue(queue))).unloadIdle();
  expect(active.due()).toEqual([queue]);
  queue.hasDueWork = false;
  await unloaderOver(databaseThat(() => {})).unloadIdle();
  expect(active.queues.size).toBe(0);
});

test('an endpoint never has more attempts in flight than its limit', () => {
  const { active } = activeQueue([]);
  const free = (open: number) => active.endpoints.capacity('1:1', { open, slow: 0 }).free;
  expect(free(0)).toBe(NEW_ENDPOINT.maxInFlight);
  expect(free(NEW_ENDPOINT.maxInFlight)).toBe(0);
});

const QUEUES = 100;

test('all queues of a throttled shop are postponed together', async () => {
  const active = new ActiveQueues();
  for (let n = 1n; n <= QUEUES; n += 1n) {
    const ids = { shopId: 1n, subscriptionId: n, endpointId: n, endpointKey: `1:${n}` };
    active.add({ ...ids, key: `1:${n}`, shard: 0, health: NEW_ENDPOINT });
  }
  let nowMs = 0;
  const postponed: number[] = [];
  const used: Partial<SchedulerOptions> = {
    active,
    inFlight: new InFlightAttempts(),
    attempts: { isShortOfSockets: () => false, start: () => {} },
    shopBytes: {
      take: () => false,
      // The clock advances while queues are checked.
      waitMs: () => {
        nowMs += 0.01;
        return 60_000 - nowMs;
      },
      throttled: () => 1,
    },
    loader: { postpone: async (queues) => void postponed.push(queues.length) },
  };
  // The test needs only this part, because no delivery is read or sent.
  await new Scheduler(used as SchedulerOptions).sendDue();
  expect(postponed).toEqual([QUEUES]);
});
