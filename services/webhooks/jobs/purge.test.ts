import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Log } from '../../../test/kit/webhooks/log.ts';
import { createReplays, type Replays } from '../../../test/kit/webhooks/replays.ts';
import { purge } from '../maintenance.ts';
import { purgeJobs } from './job-store.ts';

let replays: Replays;
let log: Log;
beforeAll(async () => {
  replays = await createReplays();
  log = replays.log;
});
afterAll(() => replays?.stop());

const DAYS = { log: 30, events: 8 };

interface Age {
  readonly startedDaysAgo: number;
  /** Null for a job that has not ended. */
  readonly endedDaysAgo: number | null;
}

/** Adds a shop with a job that has queued three deliveries, and gives the job an age. */
async function jobWith({ startedDaysAgo, endedDaysAgo }: Age): Promise<bigint> {
  const shopId = log.newShop();
  const subscriptionId = await log.subscribe(shopId);
  const exhausted = { subscriptionId, ended: 'exhausted' as const };
  await log.add(shopId, [exhausted, exhausted, exhausted]);
  await replays.start(shopId, {});
  await (endedDaysAgo === null ? replays.batch(shopId) : replays.runAll(shopId, [subscriptionId]));
  await log.pool.query(
    `update replay_jobs set started_at = now() - $2 * interval '1 day' where shop_id = $1`,
    [shopId, startedDaysAgo],
  );
  await log.pool.query(
    `update replay_parts
        set state = case when $2::float8 is null then 'running' else 'done' end,
            finished_at = now() - $2 * interval '1 day'
      where shop_id = $1`,
    [shopId, endedDaysAgo],
  );
  return shopId;
}

/** The number of a shop's jobs, and of the deliveries that they queued. */
async function storedOf(shopId: bigint): Promise<{ jobs: number; deliveries: number }> {
  const count = async (table: 'replay_jobs' | 'job_deliveries') => {
    const { rows } = await log.pool.query<{ n: number }>(
      `select count(*)::integer as n from ${table} where shop_id = $1`,
      [shopId],
    );
    return rows[0]?.n ?? 0;
  };
  return { jobs: await count('replay_jobs'), deliveries: await count('job_deliveries') };
}

describe('the purge of replays and backfills', () => {
  test('deletes the deliveries of an old job in batches, and then the job', async () => {
    const shopId = await jobWith({ startedDaysAgo: 32, endedDaysAgo: 31 });
    expect(await storedOf(shopId)).toEqual({ jobs: 1, deliveries: 3 });
    expect(await purgeJobs(log.pool, { days: DAYS.log, limit: 2 })).toBe(true);
    expect(await storedOf(shopId)).toEqual({ jobs: 1, deliveries: 1 });
    expect(await purge(log.pool, DAYS)).toBe(false);
    expect(await storedOf(shopId)).toEqual({ jobs: 0, deliveries: 0 });
  });

  test.each<[string, Age]>([
    ['ended less than 30 days ago', { startedDaysAgo: 32, endedDaysAgo: 29 }],
    ['has not ended', { startedDaysAgo: 32, endedDaysAgo: null }],
  ])('keeps the deliveries of a job that %s', async (_name, age) => {
    const shopId = await jobWith(age);
    await purge(log.pool, DAYS);
    expect(await storedOf(shopId)).toEqual({ jobs: 1, deliveries: 3 });
  });
});
