import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { FindOrderRequestSchema } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { SubmissionPart } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { raced } from '../../../test/kit/postgres/raced.ts';
import { mug, ORDER, submitByName } from '../../../test/kit/services/look-up.ts';
import {
  actor,
  newShop,
  onlyProvider,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { cancelReturn } from '../cancel.ts';
import { listEffects } from '../commerce/effects.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { findOrderOnRequest } from '../commerce/find-order.ts';
import type { CommerceProvider } from '../commerce/provider.ts';

// What is left of an order that the shop's provider looks up.

let db: TestDatabase;
let shopId: bigint;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
});

const withOrder = (lookUp: NonNullable<CommerceProvider['lookUp']>): CommerceProvider => ({
  ...createEmbeddedCommerce(db.pool),
  lookUp,
});
const submit = (more: SubmissionPart, provider: CommerceProvider) =>
  submitByName({ pool: db.pool, shopId, provider }, more);
const refused = (field: string) => ({ code: Code.InvalidArgument, field });

describe('several returns of one order line', () => {
  const three = {
    ...ORDER,
    lines: [
      {
        ...mug,
        returnable: 3,
        paid: {
          shop: { price: 2_000n, discount: 0n, tax: 0n },
          presentment: { price: 3_100n, discount: 0n, tax: 0n },
        },
        left: { units: 3 },
      },
    ],
    shipping: {
      paid: { shop: 500n, presentment: 775n },
      left: { shop: 500n, presentment: 775n },
    },
  };
  const units = (quantity: number, more = {}) =>
    submit(
      { lines: [{ providerLineItemId: 9001n, quantity, ...more }] },
      withOrder(async () => three),
    );

  test('at the same time have shares that add up', async () => {
    const first = await units(1);
    await cancelReturn(
      changeDeps(db.pool).store,
      create(CancelReturnRequestSchema, { shopId, actor, returnId: first.return.id }),
    );
    const lock = {
      text: 'select from orders where shop_id = $1 for no key update',
      values: [shopId],
    };
    const made = await raced(db.pool, lock, [() => units(2), () => units(1)]);
    expect(made).toMatchObject([
      { return: { totals: { refund: '13.33' }, presentmentTotals: { refund: '2066' } } },
      { return: { totals: { refund: '6.67' }, presentmentTotals: { refund: '1034' } } },
    ]);
  });

  test('refund no shipping that the merchant has refunded', async () => {
    const left = { shop: 300n, presentment: 465n };
    const order = { ...three, shipping: { ...three.shipping, left } };
    const sent = (shop: string) => ({
      lines: [
        { providerLineItemId: 9001n, quantity: 1, refundShipping: { shop, presentment: '310' } },
      ],
    });
    const found = withOrder(async () => order);
    await expect(submit(sent('3.01'), found)).rejects.toMatchObject(
      refused('lines[0].refund_shipping'),
    );
    expect((await submit(sent('3.00'), found)).return.totals?.refund).toBe('9.66');
  });

  test('refund no money that the merchant has refunded for no line', async () => {
    const value = { shop: 1_000n, presentment: 1_550n };
    const goodwill = { id: '7', key: '', value };
    const found = withOrder(async () => ({ ...three, otherRefunds: [goodwill] }));
    const first = await submit({ lines: [{ providerLineItemId: 9001n, quantity: 2 }] }, found);
    expect(first.return.totals?.refund).toBe('13.33');
    // Of 25.00 with shipping, 10.00 and 13.33 are gone.
    const price = { shop: '1.68', presentment: '100' };
    await expect(
      submit({ lines: [{ providerLineItemId: 9001n, quantity: 1, price }] }, found),
    ).rejects.toMatchObject(refused('lines[0].price'));
    const last = await submit({ lines: [] }, found);
    expect(last.return).toMatchObject({
      totals: { refund: '1.67' },
      presentmentTotals: { refund: '259' },
    });
  });

  test('refund no money that the shopper has not paid, for goods and shipping together', async () => {
    const unpaid = { shop: 2_000n, presentment: 3_100n };
    const found = withOrder(async () => ({ ...three, unpaid }));
    // Of 25.00 with shipping, 5.00 was paid.
    const shipping = (shop: string) => ({
      lines: [
        { providerLineItemId: 9001n, quantity: 1, refundShipping: { shop, presentment: '310' } },
      ],
    });
    await expect(submit(shipping('5.01'), found)).rejects.toMatchObject(
      refused('lines[0].refund_shipping'),
    );
    const { return: first } = await submit(shipping('2.00'), found);
    expect(first.totals).toMatchObject({ refund: '5.00', refundShippingTotal: '2.00' });
    expect((await submit({}, found)).return.totals?.refund).toBe('0.00');
  });

  test('a look-up shows what was not paid, and what was refunded for no line', async () => {
    const order = {
      ...three,
      unpaid: { shop: 2_000n, presentment: 3_100n },
      otherRefunds: [{ id: '7', key: '', value: { shop: 150n, presentment: 233n } }],
    };
    const providers = onlyProvider(withOrder(async () => order));
    const request = create(FindOrderRequestSchema, { shopId, actor, name: '#1001' });
    const { order: found } = await findOrderOnRequest({ pool: db.pool, providers }, request);
    expect(found).toMatchObject({
      refundedForNoLine: { shop: '1.50', presentment: '233' },
      unpaid: { shop: '20.00', presentment: '3100' },
    });
  });

  test('count units once that the merchant refunded, while another of them is refunded', async () => {
    const totals = { shop: 1_333n, presentment: 2_067n };
    const lines = three.lines.map((line) => ({
      ...line,
      returnable: 2,
      left: { units: 2, totals },
    }));
    const order = { ...three, lines };
    const first = await submit(
      { lines: [{ providerLineItemId: 9001n, quantity: 1 }] },
      withOrder(async () => order),
    );
    // The answer is on its way while the first return is refunded.
    const late = withOrder(async () => {
      await requestProcessing(db.pool, first.return);
      await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
      return order;
    });
    const { return: rest } = await submit({}, late);
    expect(rest).toMatchObject({ lineItems: [{ quantity: 1 }], totals: { refund: '6.67' } });
  });

  test('count a refund once that a person made for one of them at the provider', async () => {
    const { return: first } = await units(1);
    await requestProcessing(db.pool, first);
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    const effects = await listEffects(db.pool, { shopId, returnId: first.id });
    const refund = {
      id: effects[0]?.providerId ?? '',
      key: '',
      units: 1,
      value: { shop: 667n, presentment: 1_033n },
    };
    const totals = { shop: 1_333n, presentment: 2_067n };
    const line = { ...three.lines[0], returnable: 2, left: { units: 2, totals } };
    const found = withOrder(async () => ({
      ...three,
      lines: [{ ...mug, ...line, refunds: [refund] }],
      otherRefunds: [refund],
    }));
    const { return: rest } = await submit({}, found);
    expect(rest).toMatchObject({ lineItems: [{ quantity: 2 }], totals: { refund: '13.34' } });
  });

  test("lose nothing by a total of the provider that is rounded in the shop's currency", async () => {
    const { return: first } = await units(1);
    await requestProcessing(db.pool, first);
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    const left = { units: 2, totals: { shop: 1_333n, presentment: 2_067n } };
    const lines = three.lines.map((line) => ({ ...line, returnable: 2, left }));
    const { return: rest } = await submit(
      {},
      withOrder(async () => ({ ...three, lines })),
    );
    expect(rest).toMatchObject({
      totals: { refund: '13.34' },
      presentmentTotals: { refund: '2067' },
    });
  });

  test('refund at most what is left of the shipping', async () => {
    const shipping = (amount: string) => ({
      refundShipping: { shop: amount, presentment: '310' },
    });
    expect((await units(1, shipping('3.00'))).return.totals?.refund).toBe('9.66');
    await expect(units(1, shipping('2.01'))).rejects.toMatchObject(
      refused('lines[0].refund_shipping'),
    );
    expect((await units(1, shipping('2.00'))).return.totals?.refund).toBe('8.67');
  });

  test('of which one has all units leave none for another', async () => {
    await units(3);
    await expect(units(1)).rejects.toMatchObject({
      reason: ErrorReason.ORDERED_QUANTITY_EXCEEDED,
    });
  });
});
