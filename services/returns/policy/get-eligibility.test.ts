import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Ineligibility_Code } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { newShop } from '../../../test/kit/services/processing.ts';
import {
  invalid,
  notEligible,
  order,
  shopWithOrder,
} from '../../../test/kit/services/shop-with-order.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure, NoLookUp } from '../../commerce/provider.ts';

let db: TestDatabase;
let shopId: bigint;
let shop: ReturnType<typeof shopWithOrder>;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
  shop = shopWithOrder({ pool: db.pool, shopId });
});

describe('eligibility', () => {
  test('says what of each line may be returned, and what a refund would pay', async () => {
    await shop.setPolicy({ window: { days: 30 }, outcomes: [Outcome.CREDIT] });
    await shop.submit({ outcome: Outcome.CREDIT });
    expect(await shop.eligibilityOf()).toMatchObject({
      orderName: '#1001',
      providerOrderId: 445n,
      currency: 'GBP',
      presentmentCurrency: 'JPY',
      policyVersion: 1n,
      outcomes: [Outcome.CREDIT],
      returnMethods: [
        ReturnMethod.MAIL,
        ReturnMethod.IN_STORE,
        ReturnMethod.DROP_OFF,
        ReturnMethod.KEEP_ITEM,
      ],
      lines: [
        {
          providerLineItemId: 9001n,
          sku: 'MUG-1',
          title: 'Mug',
          variantTitle: 'Blue',
          orderedQuantity: 3,
          returnableQuantity: 1,
          price: '1705',
          refund: '1550',
          outcomes: [Outcome.CREDIT],
          reasons: [
            { code: Ineligibility_Code.IN_OPEN_RETURN, message: expect.stringMatching(/\.$/) },
            { code: Ineligibility_Code.REFUNDED },
            { code: Ineligibility_Code.NOT_FULFILLED },
          ],
        },
        { providerLineItemId: 9002n, returnableQuantity: 2, refund: '3100' },
        {
          providerLineItemId: 9003n,
          returnableQuantity: 0,
          refund: '0',
          reasons: [{ code: Ineligibility_Code.NOT_A_PRODUCT }, {}],
        },
      ],
    });
  });

  test('is by the name or the id of the order, and not by both or none', async () => {
    const asked: unknown[] = [];
    const provider = shop.finding(async (selector) => {
      asked.push(selector);
      return order;
    });
    await shop.eligibilityOf(provider, { order: { case: 'providerOrderId', value: 445n } });
    expect(asked).toEqual([{ shopId, id: 445n }]);
    const none = shop.eligibilityOf(provider, { order: { case: undefined } });
    await expect(none).rejects.toMatchObject(invalid('order_name'));
  });

  test.each([
    [
      'its e-mail address, in any case of letters',
      { email: 'Ada@Example.com' },
      'ADA@example.com',
      true,
    ],
    ['another e-mail address', { email: 'Ada@Example.com' }, 'bob@example.com', false],
    [
      'the postal code beside an e-mail address',
      { email: 'a@b.c', postalCode: 'N1 1AA' },
      'N1 1AA',
      false,
    ],
    ['the postal code, without one', { email: undefined, postalCode: 'N1 1AA' }, 'n11aa', true],
    ['another postal code', { email: undefined, postalCode: 'N1 1AA' }, 'N1 1AB', false],
    ['anything, with neither', { email: undefined, postalCode: undefined }, 'N1 1AA', false],
    ['nothing', { email: undefined, postalCode: undefined }, '', false],
  ])('for a shopper who states %s', async (_, facts, shopper, isFound) => {
    const read = shop.eligibilityOf(shop.platform({ ...order, ...facts }), { shopper });
    if (isFound) expect((await read).orderName).toBe('#1001');
    else await expect(read).rejects.toMatchObject({ reason: ErrorReason.ORDER_NOT_FOUND });
  });

  test('needs the e-mail address of the order, in any case of letters, when one is stated', async () => {
    expect(await shop.eligibilityOf(shop.platform(), { email: 'ada@example.COM' })).toBeTruthy();
    const without = shop.platform({ ...order, email: undefined });
    expect(await shop.eligibilityOf(without, { email: 'bob@example.com' })).toBeTruthy();
    const [other, nobodys] = await Promise.all(
      [
        shop.eligibilityOf(shop.platform(), { email: 'bob@example.com' }),
        shop.eligibilityOf(shop.finding(async () => undefined)),
      ].map((one) => one.catch((error: unknown) => error)),
    );
    expect(other).toMatchObject({ code: Code.NotFound, reason: ErrorReason.ORDER_NOT_FOUND });
    expect(other).toEqual(nobodys);
  });

  test('is unknown for a platform without look-ups, and while it does not answer', async () => {
    const { lookUp: _, ...without } = createEmbeddedCommerce(db.pool);
    const rejecting = shop.finding(() => Promise.reject(new NoLookUp('the endpoint answered 400')));
    for (const provider of [without, rejecting]) {
      await expect(shop.eligibilityOf(provider)).rejects.toMatchObject({
        code: Code.FailedPrecondition,
        reason: ErrorReason.NO_ORDER_LOOKUP,
      });
    }
    const busy = shop.finding(() => Promise.reject(new CommerceFailure('passing', 'busy')));
    await expect(shop.eligibilityOf(busy)).rejects.toMatchObject({ code: Code.Unavailable });
  });

  test('counts an order as cancelled that the platform reported so', async () => {
    await db.pool.query(
      `insert into inbound_orders (shop_id, provider_order_id, name, provider_updated_at, cancelled_at)
       values ($1, 445, '#1001', now(), now())`,
      [shopId],
    );
    const { lines } = await shop.eligibilityOf();
    for (const { reasons } of lines) {
      expect(reasons[0]?.code).toBe(Ineligibility_Code.ORDER_CANCELLED);
    }
    await expect(shop.submit()).rejects.toMatchObject(
      notEligible(Ineligibility_Code.ORDER_CANCELLED),
    );
  });
});
