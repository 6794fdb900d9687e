import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { FindOrderRequestSchema } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { SubmissionPart } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { raced } from '../../../test/kit/postgres/raced.ts';
import { hat, mug, ORDER, sold, submitByName } from '../../../test/kit/services/look-up.ts';
import {
  actor,
  newShop,
  onlyProvider,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { findOrderOnRequest } from '../../commerce/find-order.ts';
import {
  CommerceFailure,
  type CommerceProvider,
  type FoundOrder,
} from '../../commerce/provider.ts';
import { listEffects } from '../processing/effects.ts';
import { cancelReturn } from '../review/cancel.ts';

// What is left of an order that the shop's provider looks up.
let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const refused = (field: string) => ({ code: Code.InvalidArgument, field });

describe('several returns of one order line', () => {
  let shopId: bigint;
  beforeEach(async () => {
    shopId = await newShop(db.pool);
  });

  const withOrder = (lookUp: NonNullable<CommerceProvider['lookUp']>): CommerceProvider => ({
    ...createEmbeddedCommerce(db.pool),
    lookUp,
  });
  const submit = (more: SubmissionPart, provider: CommerceProvider) =>
    submitByName({ pool: db.pool, shopId, provider }, more);
  /** What `commerce order` shows of an order. */
  async function lookedUp(order: FoundOrder) {
    const providers = onlyProvider(withOrder(async () => order));
    const request = create(FindOrderRequestSchema, { shopId, actor, name: '#1001' });
    return (await findOrderOnRequest({ pool: db.pool, providers }, request)).order;
  }

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
    expect(await lookedUp(order)).toMatchObject({
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

  test('count shipping once that a person refunded for one of them at the provider', async () => {
    const refundShipping = { shop: '3.00', presentment: '465' };
    const { return: first } = await units(1, { refundShipping });
    await requestProcessing(db.pool, first);
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    const [effect] = await listEffects(db.pool, { shopId, returnId: first.id });
    const value = { shop: 300n, presentment: 465n };
    const refunds = [{ id: effect?.providerId ?? '', key: '', value }];
    const left = { shop: 200n, presentment: 310n };
    const order = { ...three, shipping: { ...three.shipping, left, refunds } };
    expect((await lookedUp(order))?.shippingLeft).toMatchObject({ shop: '2.00' });
    const rest = { refundShipping: { shop: '2.00', presentment: '310' } };
    const { return: second } = await submit(
      { lines: [{ providerLineItemId: 9001n, quantity: 1, ...rest }] },
      withOrder(async () => order),
    );
    expect(second.totals?.refund).toBe('8.67');
  });

  test('leave no shipping that one of them credits', async () => {
    const creditShipping = { shop: '3.00', presentment: '465' };
    const returnCredit = { shop: '9.66', presentment: '1498' };
    const outcome = Outcome.CREDIT;
    await submit(
      {
        outcome,
        amounts: { creditShipping, returnCredit },
        lines: [{ providerLineItemId: 9001n, quantity: 1 }],
      },
      withOrder(async () => three),
    );
    expect((await lookedUp(three))?.shippingLeft).toMatchObject({
      shop: '2.00',
      presentment: '310',
    });
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

describe('look up', () => {
  let shopId: bigint;
  beforeEach(async () => {
    shopId = await newShop(db.pool);
  });

  let looks = 0;
  const withOrder = (lookUp: NonNullable<CommerceProvider['lookUp']>): CommerceProvider => ({
    ...createEmbeddedCommerce(db.pool),
    lookUp: (order, signal) => {
      looks += 1;
      return lookUp(order, signal);
    },
  });
  const orders = () =>
    withOrder(async (asked) => ('name' in asked && asked.name === ORDER.name ? ORDER : undefined));

  const submit = (more: SubmissionPart = {}, provider: CommerceProvider = orders()) =>
    submitByName({ pool: db.pool, shopId, provider }, more);

  describe('a submission with the name of its order', () => {
    test('gets all units that can be returned, at their price in both currencies', async () => {
      const { return: made } = await submit();
      expect(made).toMatchObject({
        order: { providerOrderId: 445n, name: '#1001' },
        currency: 'GBP',
        presentmentCurrency: 'JPY',
        totals: { refund: '40.00' },
        presentmentTotals: { refund: '6200' },
      });
      expect(made.lineItems).toMatchObject([
        {
          providerLineItemId: 9001n,
          title: 'Mug',
          sku: 'MUG-1',
          quantity: 2,
          productId: 3n,
          variantId: 5n,
          amounts: { price: '22.00', discount: '4.00', tax: '2.00', refund: '20.00' },
          presentmentAmounts: { price: '3410', discount: '620', tax: '310', refund: '3100' },
        },
        { providerLineItemId: 9002n, title: 'Hat', variantId: 0n },
      ]);
    });

    test('has the units, reasons and titles that it sends, by the id or the sku of a line', async () => {
      const lines = [
        { providerLineItemId: 9001n, quantity: 1, reason: 'chipped', title: 'My mug' },
        { sku: 'HAT', quantity: 1 },
      ];
      const { return: made } = await submit({ lines });
      expect(made.lineItems).toMatchObject([
        { providerLineItemId: 9001n, quantity: 1, reason: 'chipped', title: 'My mug' },
        { providerLineItemId: 9002n, quantity: 1, amounts: { refund: '10.00' } },
      ]);
      expect(made.totals?.refund).toBe('20.00');
    });

    test('gets titles that fit', async () => {
      const long = { ...ORDER, lines: [{ ...mug, title: 'M'.repeat(255), sku: 'S'.repeat(255) }] };
      const { return: made } = await submit(
        {},
        withOrder(async () => long),
      );
      expect(made.lineItems[0]?.title).toBe('M'.repeat(191));
    });

    test('keeps a price that it sends', async () => {
      const price = { shop: '8.00', presentment: '1200' };
      const lines = [{ providerLineItemId: 9001n, quantity: 1, price }];
      expect((await submit({ lines })).return.totals?.refund).toBe('8.00');
    });

    test('keeps a part of the refund that it sends', async () => {
      const refundItem = { shop: '4.00', presentment: '620' };
      const lines = [{ providerLineItemId: 9001n, quantity: 1, refundItem }];
      const amounts = { handlingFee: { shop: '5.00', presentment: '775' } };
      const { return: made } = await submit({ lines, amounts });
      expect(made.totals?.refund).toBe('5.00');
      expect(made.lineItems[0]?.amounts).toMatchObject({ refundItem: '4.00', refundTax: '1.00' });
    });

    test('finds the normal form of its name', async () => {
      expect((await submit({ order: { name: ' #1001 ' } })).return.order?.name).toBe('#1001');
    });

    test('may be paid in another way than a refund', async () => {
      const amounts = { returnCredit: { shop: '40.00', presentment: '6200' } };
      const { return: made } = await submit({ outcome: Outcome.CREDIT, amounts });
      expect(made.totals).toMatchObject({ refund: '0.00', giftCard: '40.00' });
    });

    test('is repeated without another look-up', async () => {
      const keyed = { idempotencyKey: 'once' };
      const first = await submit(keyed);
      const before = looks;
      const down = withOrder(() => Promise.reject(new CommerceFailure('passing', 'down')));
      const again = await submit(keyed, down);
      expect(again).toMatchObject({ repeated: true, return: { id: first.return.id } });
      expect(looks).toBe(before);
    });

    test('does not return more units than were ordered, over all returns', async () => {
      await submit({ lines: [{ providerLineItemId: 9001n, quantity: 2 }] });
      const second = submit({ lines: [{ providerLineItemId: 9001n, quantity: 1 }] });
      await expect(second).rejects.toMatchObject({ reason: ErrorReason.ORDERED_QUANTITY_EXCEEDED });
    });
  });

  describe('a submission with the name of its order is rejected', () => {
    test.each<[string, SubmissionPart, string]>([
      ['an order that does not exist', { order: { name: '#9' } }, 'order.name'],
      [
        'a line that is not in the order',
        { lines: [{ providerLineItemId: 1n, quantity: 1 }] },
        'lines[0].provider_line_item_id',
      ],
      ['a sku that is not in the order', { lines: [{ sku: 'X', quantity: 1 }] }, 'lines[0].sku'],
      ['neither id nor sku', { lines: [{ quantity: 1 }] }, 'lines[0].sku'],
      [
        'more units than are left',
        { lines: [{ providerLineItemId: 9001n, quantity: 3 }] },
        'lines[0].quantity',
      ],
      [
        'a price above what is left of the line',
        {
          lines: [
            {
              providerLineItemId: 9001n,
              quantity: 1,
              price: { shop: '20.01', presentment: '3100' },
            },
          ],
        },
        'lines[0].price',
      ],
      [
        'a tax without the price',
        {
          lines: [
            { providerLineItemId: 9001n, quantity: 1, tax: { shop: '0.50', presentment: '78' } },
          ],
        },
        'lines[0].price',
      ],
      ['no unit that is left', { lines: [{ providerLineItemId: 9003n }] }, 'lines[0].quantity'],
      ['no key', { idempotencyKey: '' }, 'idempotency_key'],
    ])('for %s', async (_, more, field) => {
      await expect(submit(more)).rejects.toMatchObject(refused(field));
    });

    test.each<[string, SubmissionPart, string]>([
      ['a name that is too long', { order: { name: '#'.repeat(192) } }, 'order.name'],
      ['a name that cannot be stored', { order: { name: '#1\0' } }, 'order.name'],
      ['too many lines', { lines: Array.from({ length: 251 }, () => ({ sku: 'HAT' })) }, 'lines'],
    ])('for %s, before the provider is asked', async (_, more, field) => {
      looks = 0;
      await expect(submit(more)).rejects.toMatchObject(refused(field));
      expect(looks).toBe(0);
    });

    test('for a sku that is in the order twice', async () => {
      const twice = { ...ORDER, lines: [mug, { ...hat, sku: mug.sku }] };
      const lines = [{ sku: mug.sku, quantity: 1 }];
      await expect(
        submit(
          { lines },
          withOrder(async () => twice),
        ),
      ).rejects.toMatchObject(refused('lines[0].sku'));
    });

    test('for an order without units to return', async () => {
      const empty = { ...ORDER, lines: [sold] };
      await expect(
        submit(
          {},
          withOrder(async () => empty),
        ),
      ).rejects.toMatchObject(refused('order.name'));
    });

    test.each<SubmissionPart>([{ currency: 'EUR' }, { presentmentCurrency: 'GBP' }])(
      'for another currency than that of the order: %j',
      async (more) => {
        await expect(submit(more)).rejects.toMatchObject({ code: Code.FailedPrecondition });
      },
    );

    test('for an order in a currency that does not exist', async () => {
      const currencies = { shop: 'GBP', presentment: 'XXZ' };
      const odd = submit(
        {},
        withOrder(async () => ({ ...ORDER, currencies })),
      );
      await expect(odd).rejects.toMatchObject({ code: Code.FailedPrecondition });
    });

    test('for a shop whose provider looks no orders up', async () => {
      const { lookUp: _, ...without } = createEmbeddedCommerce(db.pool);
      await expect(submit({}, without)).rejects.toMatchObject(refused('order.provider_order_id'));
    });

    test.each([
      ['passing', Code.Unavailable],
      ['final', Code.FailedPrecondition],
    ] as const)('when the look-up fails (%s)', async (kind, code) => {
      const failing = withOrder(() => Promise.reject(new CommerceFailure(kind, 'no')));
      await expect(submit({}, failing)).rejects.toMatchObject({
        code,
        reason: ErrorReason.COMMERCE_FAILED,
      });
    });
  });
});
