import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { newSubscription } from '../../../../test/kit/webhooks/subscription.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';
import { inTransaction } from '../../../platform/postgres.ts';
import { deliveriesOf, fanOut, lockQueues } from '../../fan-out/fan-out.ts';
import { unloadQueues } from './ready-queues.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

const TODAY = new Date('2026-11-21T00:00:00Z');

/** An empty queue. */
async function newQueue() {
  const shopId = newShop();
  const queue = { shopId, subscriptionId: await newSubscription(db.pool, shopId) };
  const { rows } = await db.pool.query<{ endpointId: bigint }>(
    'select endpoint_id as "endpointId" from subscription_queues where shop_id = $1',
    [shopId],
  );
  const endpointId = rows[0]?.endpointId ?? 0n;
  return {
    queue,
    add: () =>
      inTransaction(db.pool, async (tx) => {
        const events = [sampleEvent('return.closed', shopId)];
        const queues = await lockQueues(tx, events);
        await fanOut(tx, deliveriesOf(events, queues, TODAY), { offsetMs: 0 });
      }),
    unload: (pausedUntilMs: number | null = null) =>
      unloadQueues(db.pool, [{ ...queue, endpointId, pausedUntilMs }]),
    /** Whether deliveries wait, and whether the queue is ready. */
    async state() {
      const { rows: found } = await db.pool.query<{ waits: boolean; isReady: boolean }>(
        `select exists (select from queue q where q.shop_id = l.shop_id) as waits,
                coalesce(l.ready_at <= now(), false) as "isReady"
           from subscription_queues l where l.shop_id = $1`,
        [shopId],
      );
      return found[0];
    },
    empty: () => db.pool.query('delete from queue where shop_id = $1', [shopId]),
  };
}

describe('fan-out and unloading at the same time', () => {
  test('in either order, no delivery waits in a queue without a ready time', async () => {
    const queue = await newQueue();
    for (let round = 0; round < 150; round += 1) {
      const both = round % 2 ? [queue.add(), queue.unload()] : [queue.unload(), queue.add()];
      await Promise.all(both);
      expect(await queue.state()).toEqual({ waits: true, isReady: true });
      await queue.empty();
      await queue.unload();
      expect(await queue.state()).toEqual({ waits: false, isReady: false });
    }
  });

  test('also when several add and several unload', async () => {
    const queue = await newQueue();
    for (let round = 0; round < 30; round += 1) {
      await Promise.all([queue.add(), queue.unload(), queue.add(), queue.unload(), queue.add()]);
      expect(await queue.state()).toEqual({ waits: true, isReady: true });
      await queue.empty();
      await queue.unload();
    }
  });
});

describe('a queue that is unloaded', () => {
  test('does not change while another transaction is writing it', async () => {
    const { queue, add, unload, state } = await newQueue();
    await inTransaction(db.pool, async (tx) => {
      await tx.query('select from subscription_queues where shop_id = $1 for no key update', [
        queue.shopId,
      ]);
      expect((await unload()).size).toBe(0);
    });
    await add();
    expect(await state()).toEqual({ waits: true, isReady: true });
  });

  test('is ready when its first delivery is due', async () => {
    const { queue, add, unload } = await newQueue();
    expect([...(await unload()).values()]).toEqual([null]);
    await add();
    await add();
    await db.pool.query(
      `update queue set is_retry = true, next_attempt_at = now() + interval '1 hour' where shop_id = $1`,
      [queue.shopId],
    );
    const [readyMs] = (await unload()).values();
    expect(Math.abs((readyMs ?? 0) - Date.now() - 3_600_000)).toBeLessThan(60_000);
  });

  test('is ready for a probe while its circuit is open, or when its oldest delivery is due', async () => {
    const { queue, add, unload } = await newQueue();
    await add();
    await add();
    const held = Date.now() + 3_600_000;
    // The oldest is due immediately.
    expect([...(await unload(held)).values()][0]).toBeLessThan(Date.now() + 60_000);
    await db.pool.query(
      `update queue set is_retry = true, next_attempt_at = now() + interval '30 minutes'
        where shop_id = $1 and id = (select min(id::text)::uuid from queue where shop_id = $1)`,
      [queue.shopId],
    );
    const [half] = (await unload(held)).values();
    expect(Math.abs((half ?? 0) - Date.now() - 1_800_000)).toBeLessThan(60_000);
    await db.pool.query(
      `update queue set next_attempt_at = now() + interval '3 hours' where shop_id = $1 and is_retry`,
      [queue.shopId],
    );
    const [whole] = (await unload(held)).values();
    expect(Math.abs((whole ?? 0) - held)).toBeLessThan(1_000);
  });
});
