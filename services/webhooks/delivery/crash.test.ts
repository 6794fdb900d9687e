import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { newShop } from '../../../test/support/running-service.ts';
import { runWebhooks, startReceiver, until } from '../../../test/support/webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { NO_TIMING, type Outcome } from '../sender/outcome.ts';
import { type Claimed, claimDue, reapLeases } from './claim.ts';
import { settle } from './settle.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

const delivered: Outcome = {
  result: 'delivered',
  startedAt: new Date(),
  durationMs: 1,
  timing: NO_TIMING,
  status: 200,
  error: '',
  excerpt: '',
  retryAfterMs: undefined,
};

/** Deliveries that wait in the database, and no process that would send them. */
async function leaveWaiting(count: number, shops = 1, endpoints: readonly number[] = []) {
  const receiver = await startReceiver();
  receiver.answer = (response) => void response.writeHead(500).end();
  const webhooks = await runWebhooks({ db });
  const shopIds = Array.from({ length: shops }, newShop);
  for (const [nth, shopId] of shopIds.entries()) {
    for (let path = 0; path < (endpoints[nth] ?? 1); path += 1) {
      await webhooks.subscribe({ shopId, url: `${receiver.url}/${path}` });
    }
    await webhooks.publish(
      ...Array.from({ length: count }, () => sampleEvent('return.closed', shopId)),
    );
  }
  await until(async () => {
    const rows = (await Promise.all(shopIds.map(webhooks.deliveries))).flat();
    return rows.every((row) => row.attempts.length === 1);
  });
  await webhooks.stop();
  receiver.answer = (response) => void response.writeHead(200).end();
  return { receiver, shopIds, shopId: shopIds[0] ?? 0n };
}

/** Everything that waits is due an hour from now. */
const AN_HOUR = { offsetMs: 3_600_000 };

function lose(claimed: readonly Claimed[]): Promise<unknown> {
  return db.pool.query(
    `update deliveries set lease_expires_at = now() - interval '1 second' where id = any($1::uuid[])`,
    [claimed.map((one) => one.id)],
  );
}

describe('a process that is killed', () => {
  test('between sending and settling leaves a delivery that is sent again with the same id', async () => {
    const { receiver, shopId } = await leaveWaiting(1);
    const [claimed] = await claimDue(db.pool, { limit: 10, ...AN_HOUR });
    if (!claimed) throw new Error('nothing was claimed');
    expect(await claimDue(db.pool, { limit: 10, ...AN_HOUR })).toEqual([]);
    await lose([claimed]);

    const webhooks = await runWebhooks({ db });
    webhooks.advance(3_600);
    const delivery = await until(async () => {
      const [row] = await webhooks.deliveries(shopId);
      return row?.state === DeliveryState.DELIVERED && row;
    });
    expect(receiver.received.map((one) => one.headers['webhook-id'])).toEqual([
      delivery.id,
      delivery.id,
    ]);

    // What the dead process would still write is refused.
    expect(await settle(db.pool, { claimed, headers: {}, outcome: delivered }, 0)).toBe(false);
    expect((await webhooks.deliveries(shopId))[0]?.attempts).toHaveLength(2);
    await webhooks.stop();
    await receiver.stop();
  });

  test('loses none of what was in flight', async () => {
    const { receiver, shopId } = await leaveWaiting(20);
    await lose(await claimDue(db.pool, { limit: 100, ...AN_HOUR }));
    const webhooks = await runWebhooks({ db });
    webhooks.advance(3_600);
    await until(async () =>
      (await webhooks.deliveries(shopId)).every((row) => row.state === DeliveryState.DELIVERED),
    );
    expect(new Set(receiver.received.map((one) => one.headers['webhook-id'])).size).toBe(20);
    await webhooks.stop();
    await receiver.stop();
  });
});

describe('claims', () => {
  test('take turns over shops, and 8 at most for one endpoint, whoever claims', async () => {
    const { receiver, shopIds } = await leaveWaiting(12, 3);
    const first = await claimDue(db.pool, { limit: 6, ...AN_HOUR });
    const perShop = shopIds.map((shopId) => first.filter((one) => one.shopId === shopId).length);
    expect(perShop).toEqual([2, 2, 2]);

    const others = await Promise.all(
      Array.from({ length: 4 }, () => claimDue(db.pool, { limit: 100, ...AN_HOUR })),
    );
    const last = await claimDue(db.pool, { limit: 100, ...AN_HOUR });
    const all = [first, ...others, last].flat();
    for (const shopId of shopIds) {
      expect(all.filter((one) => one.shopId === shopId)).toHaveLength(8);
    }
    expect(new Set(all.map((one) => one.id)).size).toBe(all.length);
    await lose(all);
    expect(await reapLeases(db.pool)).toBe(all.length);
    await receiver.stop();
  });

  test('a shop with many endpoints has no more turns than a shop with one', async () => {
    // What other tests left waiting would have its turn too.
    await db.pool.query(
      `update deliveries set state = 'dropped', finished_at = now(), next_attempt_at = null
        where state = 'waiting'`,
    );
    const { receiver, shopIds } = await leaveWaiting(3, 2, [4, 1]);
    const claimed = await claimDue(db.pool, { limit: 4, ...AN_HOUR });
    const perShop = shopIds.map((shopId) => claimed.filter((one) => one.shopId === shopId).length);
    expect(perShop).toEqual([2, 2]);
    const rest = await claimDue(db.pool, { limit: 100, ...AN_HOUR });
    await lose([...claimed, ...rest]);
    await receiver.stop();
  });

  test('pass over an endpoint that somebody else is claiming for', async () => {
    const { receiver, shopId } = await leaveWaiting(12);
    const claimedOfShop = async () => {
      const claimed = await claimDue(db.pool, { limit: 100, ...AN_HOUR });
      return claimed.filter((one) => one.shopId === shopId);
    };
    await inTransaction(db.pool, async (other) => {
      await other.query('select from endpoints where shop_id = $1 for no key update', [shopId]);
      expect(await claimedOfShop()).toEqual([]);
    });
    expect(await claimedOfShop()).toHaveLength(8);
    await receiver.stop();
  });

  test('leave what is not yet due', async () => {
    const { receiver, shopId } = await leaveWaiting(1);
    const claimed = await claimDue(db.pool, { limit: 100, offsetMs: 0 });
    expect(claimed.filter((one) => one.shopId === shopId)).toEqual([]);
    await lose(claimed);
    await receiver.stop();
  });
});
