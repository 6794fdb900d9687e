import { expect, test } from '@jest/globals';
import type pg from 'pg';
import type { ShardHolder } from '../../../platform/shards.ts';
import { createRetryClock } from '../attempt/retry-clock.ts';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { QueueUnloader } from '../queue/queue-unloader.ts';
import { markDue } from './active-queue.ts';
import { ActiveQueues } from './active-queues.ts';
import { InFlightAttempts } from './in-flight.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';

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
