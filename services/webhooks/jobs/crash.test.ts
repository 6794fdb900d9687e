import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Log } from '../../../test/kit/webhooks/log.ts';
import { createReplays, dying, type Replays } from '../../../test/kit/webhooks/replays.ts';
import { LeaseLost } from '../../platform/lease-lost.ts';
import { claimPart, retryPart } from './claim.ts';
import { readJob } from './job-store.ts';
import { replayBatch } from './replay-batch.ts';

let replays: Replays;
let log: Log;
beforeAll(async () => {
  replays = await createReplays();
  log = replays.log;
});
afterAll(() => replays?.stop());

describe('jobs whose processes are killed at any point', () => {
  test('a batch whose claim another process took is rejected', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    await replays.start(shopId, {});
    const late = await replays.claim(shopId);
    const next = await replays.claim(shopId);
    if (!late || !next) throw new Error('nothing was claimed');
    await expect(replayBatch(log.pool, late, { offsetMs: 0 })).rejects.toThrow(LeaseLost);
    expect(await log.queued(shopId, subscriptionId)).toEqual([]);
    expect(await replayBatch(log.pool, next, { offsetMs: 0 })).toBe(1);
    await expect(replayBatch(log.pool, next, { offsetMs: 0 })).rejects.toThrow(LeaseLost);
  });

  test('a claim belongs to one process until it expires', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    await replays.start(shopId, {});
    const claims = await Promise.all([
      replays.claim(shopId),
      claimPart(log.pool),
      claimPart(log.pool),
    ]);
    expect(claims.filter((claim) => claim?.shopId === shopId)).toHaveLength(1);
  });

  test("a due time from before the database's clock was set back is due", async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    await replays.start(shopId, {});
    await log.pool.query(
      `update replay_parts set next_at = now() + interval '1 hour' where shop_id = $1`,
      [shopId],
    );
    expect((await claimPart(log.pool))?.shopId).toBe(shopId);
  });

  test('many concurrent ones, killed anywhere, send each delivery once', async () => {
    const shopId = log.newShop();
    const subscriptions = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const all = Array.from({ length: 700 }, (_, n) => ({
      subscriptionId: subscriptions[n % 2] ?? 0n,
      ended: 'exhausted' as const,
    }));
    await log.add(shopId, all);
    const { id } = await replays.start(shopId, {});
    const one = async (n: number): Promise<void> => {
      for (let round = 0; round < 12; round += 1) {
        const claim = await replays.claim(shopId);
        if (!claim || claim.shopId !== shopId) return;
        const dies = (round + n) % 3 === 0;
        await replayBatch(dies ? dying(log.pool) : log.pool, claim, { offsetMs: 0 }).catch(
          () => {},
        );
      }
    };
    await Promise.all([one(0), one(1), one(2)]);
    await replays.runAll(shopId, []);
    const { rows } = await log.pool.query<{ n: number }>(
      'select count(*)::integer as n from queue where shop_id = $1',
      [shopId],
    );
    expect(rows[0]?.n).toBe(700);
    expect(await readJob(log.pool, shopId, id)).toMatchObject({ state: 'done', done: 700 });
  }, 60_000);

  test('a part fails after five errors that are not outages', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted' }]);
    const { id } = await replays.start(shopId, {});
    for (const isOutage of [false, true, false, false, false, false]) {
      const claim = await replays.claim(shopId);
      if (claim) await retryPart(log.pool, claim, { restMs: 0, isOutage });
    }
    expect(await readJob(log.pool, shopId, id)).toMatchObject({ state: 'failed' });
    expect(await replays.batch(shopId)).toBeUndefined();
  });
});
