import { expect, test } from '@jest/globals';
import { NEW_ENDPOINT } from '../endpoint/circuit-breaker.ts';
import { ActiveQueues } from './active-queues.ts';
import { InFlightAttempts } from './in-flight.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';

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
