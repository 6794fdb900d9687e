import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { SubmissionPart } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { hat, mug, ORDER, sold, submitByName } from '../../../test/kit/services/look-up.ts';
import { newShop } from '../../../test/kit/services/processing.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { CommerceFailure, type CommerceProvider } from '../commerce/provider.ts';

// Submissions that have the name of the order and no id: the shop's provider completes them.

let db: TestDatabase;
let shopId: bigint;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
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
const orders = () => withOrder(async ({ name }) => (name === ORDER.name ? ORDER : undefined));

const submit = (more: SubmissionPart = {}, provider: CommerceProvider = orders()) =>
  submitByName({ pool: db.pool, shopId, provider }, more);

const refused = (field: string) => ({ code: Code.InvalidArgument, field });

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
    const embedded = createEmbeddedCommerce(db.pool);
    await expect(submit({}, embedded)).rejects.toMatchObject(refused('order.provider_order_id'));
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
