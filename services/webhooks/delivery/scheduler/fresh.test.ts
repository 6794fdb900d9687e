import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type pg from 'pg';
import type { ShardHolder } from '../../../platform/shards.ts';
import { type EndpointHealth, NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import type { Due } from '../queue/read-due.ts';
import type { Target } from '../queue/targets.ts';
import { markDue } from './active-queue.ts';
import { ActiveQueues, MAX_ACTIVE_QUEUES } from './active-queues.ts';
import { InFlightAttempts } from './in-flight.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';

const KEY = '1:1';
const ids = { shopId: 1n, subscriptionId: 1n, endpointId: 1n, endpointKey: '1:1', shard: 1 };
const target: Target = {
  ...ids,
  key: KEY,
  health: NEW_ENDPOINT,
  url: 'https://example.com/',
  encryptedSecrets: null,
  isSandbox: false,
  isFailing: false,
  wasEmpty: true,
  foundAtMs: 0,
};

/** Only this part is used. */
const fresh = (id: string, bytes = 1): Due =>
  ({ ...ids, id, bytes, isRetry: false }) as Partial<Due> as Due;

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** A scheduler whose reads are empty. Records the started deliveries and the queues that were read. */
function scheduling(o: Partial<SchedulerOptions> = {}) {
  const active = new ActiveQueues();
  const started: string[] = [];
  let readings = 0;
  const query = async () => {
    readings += 1;
    return { rows: [] };
  };
  const scheduler = new Scheduler({
    active,
    pool: { query } as unknown as pg.Pool,
    inFlight: new InFlightAttempts(),
    shards: { tokenOf: () => 1n } as Partial<ShardHolder> as ShardHolder,
    attempts: { start: (due) => void started.push(due.id), isShortOfSockets: () => false },
    loader: { postpone: async () => {} },
    wakeLoop: { wake: () => {} },
    concurrency: 8,
    offsetMs: () => 0,
    retryNowMs: () => Date.now(),
    shopBytes: { take: () => true, waitMs: () => 0, throttled: () => 0 },
    ...o,
  });
  return { active, started, readings: () => readings, sendDue: () => scheduler.sendDue() };
}

describe('deliveries that were just committed', () => {
  test('are sent without a read, as many at a time as their endpoint allows', async () => {
    const { active, started, readings, sendDue } = scheduling();
    expect(active.addFresh(target, [fresh('a'), fresh('b'), fresh('c')])).toBe(true);
    await sendDue();
    expect(started).toEqual(['a', 'b']);
    await sendDue();
    expect(started).toEqual(['a', 'b', 'c']);
    expect(readings()).toBe(0);
    expect(active.due()).toEqual([]);
  });

  test('are left to the table while their queue has other work to read', async () => {
    const { active, started, readings, sendDue } = scheduling();
    active.addFresh(target, [fresh('a')]);
    for (const queue of active.queues.values()) markDue(queue);
    expect(active.addFresh(target, [fresh('b')])).toBe(false);
    await sendDue();
    expect({ started, readings: readings() }).toEqual({ started: [], readings: 1 });
    expect(active.due()).toEqual([]);
  });

  test('are read when they could not start for a while, because their address or body may have changed', async () => {
    const { active, started, readings, sendDue } = scheduling();
    active.addFresh(target, [fresh('a')]);
    jest.advanceTimersByTime(1_000);
    await sendDue();
    expect({ started, readings: readings() }).toEqual({ started: [], readings: 1 });
  });

  test('are read when the circuit of their endpoint is open', async () => {
    const circuit = { openedAtMs: 0, pausedUntilMs: Number.POSITIVE_INFINITY };
    const health: EndpointHealth = { ...NEW_ENDPOINT, failures: 10, circuit };
    const { active, started, readings, sendDue } = scheduling();
    active.addFresh({ ...target, health }, [fresh('a')]);
    await sendDue();
    expect({ started, readings: readings() }).toEqual({ started: [], readings: 1 });
  });

  test('wait in the table while their shop is throttled', async () => {
    const shopBytes = { take: () => false, waitMs: () => 0, throttled: () => 0 };
    const { active, started, sendDue } = scheduling({ shopBytes });
    active.addFresh(target, [fresh('a')]);
    await sendDue();
    expect(started).toEqual([]);
    expect(active.queues.get(KEY)).toMatchObject({ hasDueWork: true, fresh: [] });
  });
});

describe('a delivery that a read has seen before its commit was known here', () => {
  const found = (foundAtMs: number): Target => ({ ...target, foundAtMs });

  test.each([
    ['ended after the queue was found', 1, false],
    ['ended before the queue was found', 2, true],
  ])('is not sent again: the read %s', async (_, foundAtMs, isAccepted) => {
    jest.advanceTimersByTime(1);
    const { active, started, sendDue } = scheduling();
    active.addFresh(found(0.5), []);
    for (const queue of active.queues.values()) markDue(queue);
    // The read starts the delivery, and its result is recorded: it is in flight no more.
    await sendDue();
    expect(active.addFresh(found(foundAtMs), [fresh('a')])).toBe(isAccepted);
    await sendDue();
    expect(started).toEqual(isAccepted ? ['a'] : []);
  });

  test('is not sent again during the read', async () => {
    const reading = Promise.withResolvers<{ rows: Due[] }>();
    const begun = Promise.withResolvers<void>();
    const query = () => {
      begun.resolve();
      return reading.promise;
    };
    const { active, sendDue } = scheduling({ pool: { query } as unknown as pg.Pool });
    active.addFresh(found(1), []);
    for (const queue of active.queues.values()) markDue(queue);
    const sending = sendDue();
    await begun.promise;
    for (const queue of active.queues.values()) queue.hasDueWork = false;
    expect(active.addFresh(found(5), [fresh('a')])).toBe(false);
    reading.resolve({ rows: [] });
    await sending;
  });

  test('is not sent again when its queue was unloaded in between', async () => {
    jest.advanceTimersByTime(1);
    const { active, sendDue } = scheduling();
    active.addFresh(found(0.5), []);
    for (const queue of active.queues.values()) markDue(queue);
    await sendDue();
    active.remove(KEY);
    expect(active.addFresh(found(1), [fresh('a')])).toBe(false);
    expect(active.addFresh(found(2), [fresh('b')])).toBe(true);
  });
});

describe('fresh deliveries of a queue', () => {
  test('that is not active are accepted when no other delivery waits in it', () => {
    const active = new ActiveQueues();
    expect(active.addFresh({ ...target, wasEmpty: false }, [fresh('a')])).toBe(false);
    expect(active.queues.size).toBe(0);
    expect(active.addFresh(target, [fresh('a')])).toBe(true);
    expect(active.due()).toMatchObject([{ key: KEY, hasDueWork: false }]);
  });

  test('that has moved to another endpoint are left to the table', () => {
    const active = new ActiveQueues();
    active.addFresh(target, []);
    const moved = { ...target, endpointId: 2n, endpointKey: '1:2' };
    expect(active.addFresh(moved, [fresh('a')])).toBe(false);
  });

  test('that was not read from the start for a while are left to the table', () => {
    const active = new ActiveQueues();
    expect(active.addFresh(target, [fresh('a')])).toBe(true);
    jest.advanceTimersByTime(60_000);
    expect(active.addFresh(target, [fresh('b')])).toBe(false);
  });

  test('are dropped with the queue', async () => {
    const { active, started, sendDue } = scheduling();
    active.addFresh(target, [fresh('a')]);
    active.keepOnly([2]);
    active.addFresh(target, [fresh('b')]);
    await sendDue();
    expect(started).toEqual(['b']);
  });

  test('are limited by their bytes, and free them when they are taken', async () => {
    const { active, sendDue } = scheduling();
    const large = 5 * 1024 * 1024;
    expect(active.addFresh(target, [fresh('a', large)])).toBe(true);
    expect(active.addFresh(target, [fresh('b', large)])).toBe(false);
    await sendDue();
    expect(active.addFresh(target, [fresh('c', large)])).toBe(true);
    active.remove(KEY);
    expect(active.addFresh(target, [fresh('d', large)])).toBe(true);
  });

  test('are left to the table when the number of active queues is at its limit', () => {
    const active = new ActiveQueues();
    for (let n = 2; n < MAX_ACTIVE_QUEUES + 2; n += 1) active.add({ ...target, key: `1:${n}` });
    expect(active.addFresh(target, [fresh('a')])).toBe(false);
  });
});
