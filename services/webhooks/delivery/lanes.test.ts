import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { newShop } from '../../../test/support/running-service.ts';
import { keyring } from '../../../test/support/webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { fanOut, lockLanes } from '../fan-out/fan-out.ts';
import { addSecret } from '../subscriptions/secrets.ts';
import { createSubscription } from '../subscriptions/subscription-store.ts';
import { parkLanes } from './lanes.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

const AT = { today: new Date('2026-11-21T00:00:00Z'), offsetMs: 0 };

/** A lane with nothing in it. */
async function newLane() {
  const shopId = newShop();
  const { subscription } = await createSubscription(db.pool, shopId, {
    fields: {
      topic: 'return',
      trigger: 'return.closed',
      url: 'https://partner.example/',
      status: undefined,
    },
    offsetMs: 0,
    limitedHost: () => undefined,
    withSecret: (tx, subscriptionId) => addSecret(tx, { shopId, subscriptionId }, keyring),
  });
  const lane = { shopId, subscriptionId: subscription.id };
  const { rows } = await db.pool.query<{ endpointId: bigint }>(
    'select endpoint_id as "endpointId" from lanes where shop_id = $1',
    [shopId],
  );
  const endpointId = rows[0]?.endpointId ?? 0n;
  return {
    lane,
    add: () =>
      inTransaction(db.pool, async (tx) => {
        const events = [sampleEvent('return.closed', shopId)];
        await fanOut(tx, events, await lockLanes(tx, events), AT);
      }),
    park: (heldUntilMs: number | null = null) =>
      parkLanes(db.pool, [{ ...lane, endpointId, heldUntilMs }]),
    /** Whether something waits, and whether the lane is to be looked at now. */
    async state() {
      const { rows: found } = await db.pool.query<{ waits: boolean; isReady: boolean }>(
        `select exists (select from queue q where q.shop_id = l.shop_id) as waits,
                coalesce(l.ready_at <= now(), false) as "isReady"
           from lanes l where l.shop_id = $1`,
        [shopId],
      );
      return found[0];
    },
    empty: () => db.pool.query('delete from queue where shop_id = $1', [shopId]),
  };
}

describe('fan-out against parking', () => {
  test('whichever comes first, nothing waits in a lane that nobody will look at', async () => {
    const lane = await newLane();
    for (let round = 0; round < 150; round += 1) {
      const both = round % 2 ? [lane.add(), lane.park()] : [lane.park(), lane.add()];
      await Promise.all(both);
      expect(await lane.state()).toEqual({ waits: true, isReady: true });
      await lane.empty();
      await lane.park();
      expect(await lane.state()).toEqual({ waits: false, isReady: false });
    }
  });

  test('also when several add and several park', async () => {
    const lane = await newLane();
    for (let round = 0; round < 30; round += 1) {
      await Promise.all([lane.add(), lane.park(), lane.add(), lane.park(), lane.add()]);
      expect(await lane.state()).toEqual({ waits: true, isReady: true });
      await lane.empty();
      await lane.park();
    }
  });
});

describe('a lane that is parked', () => {
  test('is left as it is while somebody writes to it', async () => {
    const { lane, add, park, state } = await newLane();
    await inTransaction(db.pool, async (tx) => {
      await tx.query('select from lanes where shop_id = $1 for no key update', [lane.shopId]);
      expect((await park()).size).toBe(0);
    });
    await add();
    expect(await state()).toEqual({ waits: true, isReady: true });
  });

  test('is due when the first of what waits is', async () => {
    const { lane, add, park } = await newLane();
    expect([...(await park()).values()]).toEqual([null]);
    await add();
    await add();
    await db.pool.query(
      `update queue set is_retry = true, next_attempt_at = now() + interval '1 hour' where shop_id = $1`,
      [lane.shopId],
    );
    const [readyMs] = (await park()).values();
    expect(Math.abs((readyMs ?? 0) - Date.now() - 3_600_000)).toBeLessThan(60_000);
  });

  test('is looked at for a probe while its circuit is open, or when its oldest is due', async () => {
    const { lane, add, park } = await newLane();
    await add();
    await add();
    const held = Date.now() + 3_600_000;
    // The oldest is due at once.
    expect([...(await park(held)).values()][0]).toBeLessThan(Date.now() + 60_000);
    await db.pool.query(
      `update queue set is_retry = true, next_attempt_at = now() + interval '30 minutes'
        where shop_id = $1 and id = (select min(id::text)::uuid from queue where shop_id = $1)`,
      [lane.shopId],
    );
    const [half] = (await park(held)).values();
    expect(Math.abs((half ?? 0) - Date.now() - 1_800_000)).toBeLessThan(60_000);
    await db.pool.query(
      `update queue set next_attempt_at = now() + interval '3 hours' where shop_id = $1 and is_retry`,
      [lane.shopId],
    );
    const [whole] = (await park(held)).values();
    expect(Math.abs((whole ?? 0) - held)).toBeLessThan(1_000);
  });
});
