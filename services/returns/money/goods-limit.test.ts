import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { RecordReceiptRequestSchema } from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { mug } from '../../../test/kit/services/look-up.ts';
import { actor, destinations, newShop, reload } from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { order, shopWithOrder } from '../../../test/kit/services/shop-with-order.ts';
import type { FoundOrder } from '../../commerce/provider.ts';
import { recordReceipt } from '../arrivals/record-receipt.ts';
import { editReturn } from '../edit/edit.ts';
import { cancelReturn } from '../review/cancel.ts';

// The returns of an order that was looked up never have more for goods than was paid for them and is left.

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

const paid = (price: bigint) => {
  const value = { price, discount: 0n, tax: 0n };
  return { shop: value, presentment: value };
};

/** Lines with this many units and this price for all of them. */
function orderOf(
  lines: readonly (readonly [units: number, price: bigint])[],
  more = {},
): FoundOrder {
  return {
    ...order,
    currencies: { shop: 'GBP', presentment: 'GBP' },
    lines: lines.map(([units, price], n) => ({
      ...{ ...mug, id: BigInt(n + 1), kind: 'product', variants: [], shipped: units },
      ...{ quantity: units, returnable: units, left: { units }, paid: paid(price) },
    })),
    ...more,
  };
}

async function submit(found: FoundOrder, line: bigint, quantity: number): Promise<Return> {
  const lines = [{ providerLineItemId: line, quantity }];
  return (await shop.submit({ lines }, shop.platform(found))).return;
}

const expire = ({ id }: Return) =>
  db.pool.query("update returns set state = 'expired' where shop_id = $1 and id = $2", [
    shopId,
    id,
  ]);

/** The goods of an expired return arrive. Returns its state after that. */
async function arrive(of: Return): Promise<ReturnState> {
  const items = of.lineItems.map(({ lineItemId, quantity }) => ({ lineItemId, quantity }));
  const by = { case: 'returnId' as const, value: of.id };
  const request = { shopId, actor, idempotencyKey: randomUUID(), return: by, items };
  const deps = { store: storeOf(db.pool), destinations };
  await recordReceipt(deps, create(RecordReceiptRequestSchema, request));
  return (await reload(db.pool, of)).state;
}

describe('an expired return whose goods arrive', () => {
  test('opens again while its money is left', async () => {
    const found = orderOf([[3, 1_000n]]);
    const first = await submit(found, 1n, 2);
    await expire(first);
    await submit(found, 1n, 1);
    expect(await arrive(first)).toBe(ReturnState.OPEN);
  });

  test('stays expired when another return and a refund for goodwill have its money', async () => {
    const value = { shop: 2_000n, presentment: 2_000n };
    const found = orderOf(
      [
        [1, 5_000n],
        [1, 5_000n],
      ],
      {
        otherRefunds: [{ id: 'r1', key: '', value }],
      },
    );
    const first = await submit(found, 1n, 1);
    expect(first.totals?.refund).toBe('50.00');
    await expire(first);
    expect((await submit(found, 2n, 1)).totals?.refund).toBe('50.00');
    expect(await arrive(first)).toBe(ReturnState.EXPIRED);
    const { rows } = await db.pool.query(
      "select text from timeline where shop_id = $1 and kind = 'return.stays_expired'",
      [shopId],
    );
    expect(rows).toEqual([{ text: expect.stringContaining('less than its value is left') }]);
  });

  test('stays expired when the merchant has refunded the line by its amount', async () => {
    const found = orderOf([[3, 1_000n]]);
    const first = await submit(found, 1n, 1);
    await expire(first);
    const totals = { shop: 0n, presentment: 0n };
    const lines = found.lines.map((line) => ({ ...line, left: { units: 3, totals } }));
    expect((await submit({ ...found, lines }, 1n, 2)).totals?.refund).toBe('0.00');
    expect(await arrive(first)).toBe(ReturnState.EXPIRED);
  });

  test('stays expired when shares that were rounded without it have its money', async () => {
    const found = orderOf([[3, 1_000n]]);
    const two = await submit(found, 1n, 2);
    const second = await submit(found, 1n, 1);
    await expire(second);
    const third = await submit(found, 1n, 1);
    await expire(third);
    await cancelReturn(
      changeDeps(db.pool).store,
      create(CancelReturnRequestSchema, {
        ...{ shopId, actor, returnId: two.id },
      }),
    );
    const fourth = await submit(found, 1n, 1);
    expect([second, third, fourth].map(({ totals }) => totals?.refund)).toEqual([
      ...['3.34', '3.34', '3.33'],
    ]);
    expect([await arrive(second), await arrive(third)]).toEqual([
      ReturnState.OPEN,
      ReturnState.EXPIRED,
    ]);
  });
});

test('an edit raises no value above what was paid', async () => {
  const found = orderOf([[3, 1_000n]]);
  const of = await submit(found, 1n, 1);
  await submit(found, 1n, 1);
  const edited = async (price: string) => {
    const { revision: expectedRevision } = await reload(db.pool, of);
    const amount = { shop: price, presentment: price };
    const lineItemId = of.lineItems[0]?.lineItemId ?? 0n;
    const changes = [{ lineItemId, price: amount, refundItem: amount }];
    const request = { shopId, actor, returnId: of.id, expectedRevision, changes };
    return editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
  };
  const refused = { code: Code.InvalidArgument, field: 'changes[0].price' };
  await expect(edited('6.68')).rejects.toMatchObject(refused);
  expect((await edited('6.67')).totals?.refund).toBe('6.67');
  expect((await edited('1.00')).totals?.refund).toBe('1.00');
});
