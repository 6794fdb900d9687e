import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Ineligibility_Code } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { newShop } from '../../../test/kit/services/processing.ts';
import { notEligible, shopWithOrder } from '../../../test/kit/services/shop-with-order.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

test('a submission that is only validated shows what it would do, and leaves nothing behind', async () => {
  const shopId = await newShop(db.pool);
  const shop = shopWithOrder({ pool: db.pool, shopId });
  const idempotencyKey = randomUUID();
  const { return: tried } = await shop.submit({ idempotencyKey, validateOnly: true });
  expect(tried).toMatchObject({ totals: { refund: '10.00' }, lineItems: [{ quantity: 1 }] });
  const counted = await db.pool.query(
    `select (select count(*)::int from returns where shop_id = $1) as returns,
              (select count(*)::int from events where shop_id = $1) as events,
              (select count(*)::int from timeline where shop_id = $1) as timeline`,
    [shopId],
  );
  expect(counted.rows).toEqual([{ returns: 0, events: 0, timeline: 0 }]);
  const { return: made } = await shop.submit({ idempotencyKey });
  expect(made.totals?.refund).toBe('10.00');
  const refused = shop.submit({
    lines: [{ providerLineItemId: 9003n, quantity: 1 }],
    validateOnly: true,
  });
  await expect(refused).rejects.toMatchObject(notEligible(Ineligibility_Code.NOT_A_PRODUCT, 9003n));
});
