import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  DeliveryFilterSchema,
  DeliveryState,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { Ended, Log } from '../../../test/kit/webhooks/log.ts';
import { createReplays, type Replays } from '../../../test/kit/webhooks/replays.ts';
import { parseFilter, resolveFilter } from '../log/filter.ts';
import { purge } from '../maintenance.ts';
import { cancelJob, purgeJobs, readJob, readJobs } from './job-store.ts';
import { previewReplay } from './preview.ts';

let replays: Replays;
let log: Log;
beforeAll(async () => {
  replays = await createReplays();
  log = replays.log;
});
afterAll(() => replays.stop());

describe('the preview of a replay', () => {
  test('counts what would be sent, and what would not, by reason', async () => {
    const shopId = log.newShop();
    const live = await log.subscribe(shopId);
    const paused = await log.subscribe(shopId);
    const gone = await log.subscribe(shopId);
    const [oldest, newest] = [new Date(Date.now() - 60_000), new Date(Date.now() - 1_000)];
    await log.add(shopId, [
      { subscriptionId: live, ended: 'exhausted', at: oldest },
      { subscriptionId: live, ended: 'delivered', at: newest },
      { subscriptionId: live, ended: 'delivered', withoutBody: true, at: newest },
      { subscriptionId: live, at: newest },
      { subscriptionId: live, ended: 'delivered', isTest: true },
      { subscriptionId: paused, ended: 'expired', at: newest },
      { subscriptionId: gone, ended: 'delivered', at: newest },
      { subscriptionId: gone, at: newest },
    ]);
    await log.change(shopId, paused, { status: 'inactive' });
    await log.unsubscribe(shopId, gone);
    const all = await replays.preview(shopId, {});
    expect(all).toMatchObject({
      matched: 7,
      isMore: false,
      replayable: [{ subscriptionId: live, total: 2 }],
      oldestAt: oldest,
      newestAt: newest,
    });
    expect(Object.fromEntries(all.notReplayable.map((one) => [one.reason, one.count]))).toEqual({
      payload_gone: 1,
      waiting: 1,
      subscription_inactive: 1,
      subscription_deleted: 2,
    });
    expect(await replays.preview(shopId, { states: [DeliveryState.EXHAUSTED] })).toMatchObject({
      matched: 1,
      replayable: [{ total: 1 }],
      notReplayable: [],
    });
    expect(await replays.preview(log.newShop(), {})).toMatchObject({ matched: 0, oldestAt: null });
  });

  test('reports that there was too much to scan, although no scanned delivery matched', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const delivered = { subscriptionId, ended: 'delivered' as const };
    await log.add(shopId, [delivered, delivered, delivered]);
    const asked = create(DeliveryFilterSchema, { states: [DeliveryState.EXHAUSTED] });
    const filter = await resolveFilter(log.pool, shopId, parseFilter(asked));
    const none = { matched: 0, oldestAt: null, replayable: [], notReplayable: [] };
    expect(await previewReplay(log.pool, filter, 3)).toEqual({
      ...none,
      isMore: false,
      newestAt: null,
    });
    expect(await previewReplay(log.pool, filter, 2)).toMatchObject({ ...none, isMore: true });
  });
});

describe('a replay', () => {
  test('sends exactly the deliveries of its preview, each once, in any batches', async () => {
    const wanted = fc.record({
      at: fc.integer({ min: 1, max: 40 * 60 }),
      ended: fc.constantFrom<Ended>(null, 'delivered', 'exhausted', 'expired'),
      trigger: fc.constantFrom('return.closed' as const, 'return.created' as const),
      withoutBody: fc.boolean(),
    });
    const filter = fc.record(
      {
        states: fc.constantFrom<DeliveryState[]>(
          [DeliveryState.EXHAUSTED],
          [DeliveryState.EXHAUSTED, DeliveryState.DELIVERED],
        ),
        trigger: fc.constant<string>('return.closed'),
        from: fc.integer({ min: 20 * 60, max: 50 * 60 }),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(wanted, { maxLength: 25 }),
        filter,
        fc.boolean(),
        async (given, { from, ...rest }, isSplit) => {
          const shopId = log.newShop();
          const ids = [await log.subscribe(shopId), await log.subscribe(shopId)];
          const now = Date.now();
          await log.add(
            shopId,
            given.map((one, n) => ({
              ...one,
              at: new Date(now - one.at * 60_000),
              subscriptionId: ids[isSplit ? n % 2 : 0] ?? 0n,
            })),
          );
          const asked = {
            ...rest,
            ...(from !== undefined && { from: timestampFromDate(new Date(now - from * 60_000)) }),
          };
          const before = await replays.preview(shopId, asked);
          const expected = before.replayable.reduce((sum, { total }) => sum + total, 0);
          const job = await replays.start(shopId, asked);
          expect(job.total).toBe(expected);
          expect(await replays.runAll(shopId, ids)).toBe(expected);
          expect(await readJob(log.pool, shopId, job.id)).toMatchObject({
            state: 'done',
            total: expected,
            done: expected,
            skipped: 0,
          });
        },
      ),
      { numRuns: 15 },
    );
  });

  test('is sent after fresh deliveries, and never more than 1,000 ahead', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const ended = Array.from({ length: 1_150 }, () => ({
      subscriptionId,
      ended: 'delivered' as const,
    }));
    await log.add(shopId, ended);
    await log.add(shopId, [{ subscriptionId }]);
    await replays.start(shopId, {});
    for (const expected of [200, 200, 200, 200, 199, 0, 0]) {
      expect(await replays.batch(shopId)).toBe(expected);
    }
    const { rows } = await log.pool.query<{ isRetry: boolean; n: number }>(
      `select is_retry as "isRetry", count(*)::integer as n from queue
        where shop_id = $1 group by 1 order by 1`,
      [shopId],
    );
    expect(rows).toEqual([
      { isRetry: false, n: 1 },
      { isRetry: true, n: 999 },
    ]);
    await log.deliver(shopId, subscriptionId);
    expect(await replays.runAll(shopId, [subscriptionId])).toBe(151);
  });

  test('skips deliveries that ended after it was started, such as its own', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    const job = await replays.start(shopId, {});
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted', at: new Date() }]);
    expect(await replays.runAll(shopId, [subscriptionId])).toBe(1);
    expect(await readJob(log.pool, shopId, job.id)).toMatchObject({ done: 1, total: 1 });
  });

  test('skips deliveries that can no longer be replayed', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [
      { subscriptionId, ended: 'exhausted' },
      { subscriptionId, ended: 'exhausted' },
    ]);
    const job = await replays.start(shopId, {});
    await log.pool.query(
      `update payloads set body = null where shop_id = $1 and id = (
         select payload_id from deliveries where shop_id = $1 order by id limit 1)`,
      [shopId],
    );
    expect(await replays.runAll(shopId, [subscriptionId])).toBe(1);
    expect(await readJob(log.pool, shopId, job.id)).toMatchObject({ done: 1, skipped: 1 });
  });

  test('fails where its subscription was deleted, waits where it is inactive', async () => {
    const shopId = log.newShop();
    const [gone, paused] = [await log.subscribe(shopId), await log.subscribe(shopId)];
    await log.add(shopId, [
      { subscriptionId: gone, ended: 'exhausted' },
      { subscriptionId: paused, ended: 'exhausted' },
    ]);
    const first = await replays.start(shopId, { subscriptionId: gone });
    await log.unsubscribe(shopId, gone);
    await replays.batch(shopId);
    expect(await readJob(log.pool, shopId, first.id)).toMatchObject({
      state: 'failed',
      error: 'the subscription was deleted',
    });
    const second = await replays.start(shopId, { subscriptionId: paused });
    await log.change(shopId, paused, { status: 'inactive' });
    expect(await replays.batch(shopId)).toBe(0);
    expect(await readJob(log.pool, shopId, second.id)).toMatchObject({ state: 'running' });
    await log.change(shopId, paused, { status: 'active' });
    expect(await replays.runAll(shopId, [paused])).toBe(1);
  });

  test('is the same for the same key, and another one for another key', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    const both = await Promise.all([
      replays.start(shopId, {}, 'a'),
      replays.start(shopId, {}, 'a'),
    ]);
    expect(both[0]).toEqual(both[1]);
    await expect(replays.start(shopId, { topic: 'return' }, 'a')).rejects.toMatchObject({
      field: 'idempotency_key',
    });
    await expect(replays.start(shopId, {}, 'b')).rejects.toThrow(/is running/);
    await replays.runAll(shopId, [subscriptionId]);
    const next = await replays.start(shopId, {}, 'b');
    expect(next.id).not.toBe(both[0]?.id);
    const listed = { shopId, subscriptionId, before: null, limit: 10 };
    expect((await readJobs(log.pool, listed)).map(({ id }) => id)).toEqual([next.id, both[0]?.id]);
  });

  test('without deliveries is done immediately', async () => {
    const shopId = log.newShop();
    expect(await replays.start(shopId, {})).toMatchObject({ state: 'done', total: 0 });
    const gone = { subscriptionId: 999_999n };
    await expect(replays.start(shopId, gone)).rejects.toThrow(/does not exist/);
  });

  test('that is cancelled leaves the rest unchanged, and stays cancelled', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(
      shopId,
      Array.from({ length: 250 }, () => ({ subscriptionId, ended: 'exhausted' as const })),
    );
    const { id } = await replays.start(shopId, {});
    expect(await replays.batch(shopId)).toBe(200);
    const cancelled = await cancelJob(log.pool, shopId, id);
    expect(cancelled).toMatchObject({ state: 'cancelled', done: 200, total: 250 });
    expect(await replays.batch(shopId)).toBeUndefined();
    expect(await log.queued(shopId, subscriptionId)).toHaveLength(200);
    expect(await cancelJob(log.pool, shopId, id)).toEqual(cancelled);
    await expect(cancelJob(log.pool, log.newShop(), id)).rejects.toThrow(/does not exist/);
  });
});

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
