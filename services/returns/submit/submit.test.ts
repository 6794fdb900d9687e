import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  LabelRequest_State,
  LineOutcome,
  Outcome,
  ReturnMethod,
  ReturnState,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line, newId } from '../../../test/kit/builders.ts';
import { CLOSED_WAREHOUSE, WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { LINE_FIELDS, RETURN_FIELDS } from '../fields.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const conflict = {
  code: Code.AlreadyExists,
  reason: 'IDEMPOTENCY_CONFLICT',
  field: 'idempotency_key',
};
const lineTaken = {
  code: Code.FailedPrecondition,
  reason: 'LINE_IN_LIVE_RETURN',
  field: 'lines[0]',
};

describe('submit return', () => {
  test('stores the whole submission and returns it', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId, {
      order: {
        providerOrderId: 2n ** 53n - 1n,
        name: '#7 “été” 🧣',
        number: 7n,
        providerOrderNumber: 1007n,
      },
      customer: {
        email: 'ann@example.com',
        firstName: 'Ann',
        address: { city: 'York', countryCode: 'gb' },
      },
      type: ReturnType.WARRANTY,
      returnMethod: ReturnMethod.DROP_OFF,
      destinationId: WAREHOUSE,
      packageReference: 'P-1',
      statusPageUrl: 'https://shop.example/r/1',
      lines: [
        line({
          price: { shop: '20' },
          discount: { shop: '2.5' },
          tax: { shop: '1.05' },
          refundShipping: { shop: '3.5' },
          refundShippingTax: { shop: '0.5' },
          variantTitle: 'Red',
          outcome: LineOutcome.REFUND,
        }),
      ],
    });

    expect(submitted).toMatchObject({
      state: ReturnState.OPEN,
      revision: 1n,
      type: ReturnType.WARRANTY,
      returnMethod: ReturnMethod.DROP_OFF,
      destinationId: WAREHOUSE,
      currency: 'GBP',
      presentmentCurrency: 'GBP',
      order: { providerOrderId: 2n ** 53n - 1n, name: '#7 “été” 🧣', number: 7n },
      customer: { email: 'ann@example.com', address: { countryCode: 'GB' } },
    });
    expect([submitted.editedAt, submitted.archivedAt]).toEqual([undefined, undefined]);
    expect(submitted.customer?.lastName).toBeUndefined();
    expect(submitted.order?.id).toBeLessThan(1_000_000_000n);
    expect(submitted.lineItems[0]).toMatchObject({
      title: 'Scarf - Red',
      quantity: 2,
      amounts: { price: '20.00', refund: '3.50', refundExcludingShippingTax: '3.00' },
    });
    expect(submitted.totals).toMatchObject({
      returnProductTotal: '20.00',
      returnDiscountTotal: '2.50',
      returnTaxTotal: '1.05',
      returnTotal: '18.55',
      refundShippingTotal: '3.50',
      returnShippingTotal: '3.50',
      returnShippingTaxTotal: '0.50',
      refund: '22.05',
      total: '22.05',
      giftCard: '0.00',
    });
    expect(await bench.read(submitted)).toEqual(submitted);
  });

  test('publishes it once, with the whole return', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId);
    const events = await bench.events(shopId);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      trigger: 'return.created',
      returnId: submitted.id,
      revision: 1n,
      actor: { id: actor.id },
    });
    expect(events[0]?.snapshot).toEqual(submitted);
    expect((await bench.timeline(submitted)).map((entry) => entry.kind)).toEqual([
      'return.submitted',
    ]);
  });

  test('puts a flagged return into review', async () => {
    const flagged = await bench.submit(await bench.shop(), { flagReasons: ['too many returns'] });
    expect(flagged).toMatchObject({
      state: ReturnState.REVIEW,
      flagReasons: ['too many returns'],
    });
  });

  test('keeps both currencies apart and never converts', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      presentmentCurrency: 'JPY',
      lines: [line({ price: { shop: '20.00', presentment: '3900' } })],
      amounts: { handlingFee: { shop: '1.00', presentment: '195' } },
    });
    expect(submitted.totals).toMatchObject({ returnTotal: '20.00', refund: '19.00' });
    expect(submitted.presentmentTotals).toMatchObject({ returnTotal: '3900', refund: '3705' });
  });

  test('uses a past submission time as the time of creation, and rejects a future one', async () => {
    const shopId = await bench.shop();
    const submittedAt = timestampFromDate(new Date('2011-01-04T10:00:00Z'));
    const old = await bench.submit(shopId, { submittedAt });
    expect(timestampDate(present(old.createdAt))).toEqual(new Date('2011-01-04T10:00:00Z'));
    const ahead = timestampFromDate(new Date(Date.now() + 120_000));
    expect(await bench.submitError(shopId, { submittedAt: ahead })).toEqual(
      invalid('submitted_at'),
    );
  });

  test.each(['0001-01-01', '1970-01-01', '1999-12-31T23:59:59Z'])(
    'rejects %s as a time of submission, which a program sends for no time',
    async (time) => {
      const submittedAt = timestampFromDate(new Date(time));
      const error = await bench.submitError(await bench.shop(), { submittedAt });
      expect(error).toEqual(invalid('submitted_at'));
    },
  );

  test('gives two returns of one order the same order id', async () => {
    const shopId = await bench.shop();
    const providerOrderId = newId();
    const [first, second] = await Promise.all([
      bench.submit(shopId, { order: { providerOrderId, name: '#1' } }),
      bench.submit(shopId, { order: { providerOrderId, name: '#1b' } }),
    ]);
    expect(first.order?.id).toBe(second.order?.id);
    expect([first.order?.name, second.order?.name]).toEqual(['#1', '#1b']);
  });
});

describe('submit return again', () => {
  test('returns the first return for the same key and content', async () => {
    const shopId = await bench.shop();
    const request = bench.request(shopId);
    const first = await bench.client.submitReturn(request);
    const again = await bench.client.submitReturn({ ...request, actor: { ...actor, id: 'u2' } });
    expect(again.return).toEqual(first.return);
    expect([first.repeated, again.repeated]).toEqual([false, true]);
    expect(await bench.events(shopId)).toHaveLength(1);
  });

  test('rejects the same key with other content', async () => {
    const shopId = await bench.shop();
    const request = bench.request(shopId);
    await bench.client.submitReturn(request);
    const other = { ...request, packageReference: 'other' };
    expect(await refusal(bench.client.submitReturn(other))).toEqual(conflict);
  });

  test('makes one return of parallel calls with one key', async () => {
    const shopId = await bench.shop();
    const request = bench.request(shopId);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => bench.client.submitReturn(request)),
    );
    expect(new Set(answers.map((answer) => answer.return?.id)).size).toBe(1);
    expect(await bench.events(shopId)).toHaveLength(1);
  });

  test('lets another shop use the same key and the same lines', async () => {
    const request = bench.request(await bench.shop());
    const first = await bench.client.submitReturn(request);
    const second = await bench.client.submitReturn({ ...request, shopId: await bench.shop() });
    expect(second.return?.id).not.toBe(first.return?.id);
  });
});

describe('a line in a live return whose ordered quantity is not known', () => {
  test('cannot be submitted again, neither later nor at the same time', async () => {
    const shopId = await bench.shop();
    const { order } = bench.request(shopId);
    const lines = [line(), line()];
    const calls = await Promise.allSettled(
      [lines, [...lines].reverse()].map((both) => bench.submit(shopId, { order, lines: both })),
    );
    expect(calls.map((call) => call.status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await bench.submitError(shopId, { lines: [lines[0] ?? line()] })).toEqual(lineTaken);
  });

  test('is free again once that return is cancelled', async () => {
    const shopId = await bench.shop();
    const lines = [line()];
    const first = await bench.submit(shopId, { lines });
    await bench.client.cancelReturn({ shopId, actor, returnId: first.id });
    const second = await bench.submit(shopId, { lines });
    expect(second.id).not.toBe(first.id);
  });
});

describe('a submission with third-party labels', () => {
  const thirdParty = { labelProvider: LabelProvider.THIRD_PARTY };

  test('requests a label with addresses, parcel and products', async () => {
    const shopId = await bench.shop({ ...thirdParty, parcel: { lengthCm: 40 } });
    const submitted = await bench.submit(shopId, {
      destinationId: WAREHOUSE,
      customer: { address: { city: 'York' } },
      lines: [line({ weightG: 150, hsCode: '6214', countryOfOrigin: 'it', sku: 'S-1' })],
    });
    const events = await bench.events(shopId);
    expect(events.map((event) => event.trigger)).toEqual([
      'return.created',
      'label.request.issued',
    ]);
    expect(events[1]?.snapshot).toEqual(submitted);
    expect(events[1]?.detail.value).toMatchObject({
      returnId: submitted.id,
      shopId,
      state: LabelRequest_State.OPEN,
      origin: { city: 'York' },
      destination: { city: 'Leeds' },
      parcel: { lengthCm: 40, widthCm: 20, heightCm: 10, weightG: 300 },
      products: [{ name: 'Scarf', sku: 'S-1', hsCode: '6214', countryOfOrigin: 'IT' }],
    });
  });

  test('requests no label when the goods are not mailed', async () => {
    const shopId = await bench.shop(thirdParty);
    await bench.submit(shopId, { returnMethod: ReturnMethod.KEEP_ITEM });
    expect((await bench.events(shopId)).map((event) => event.trigger)).toEqual(['return.created']);
  });
});

describe('a submission is rejected', () => {
  test('for a shop without settings', async () => {
    expect(await bench.submitError(newShop(), {})).toMatchObject({
      code: Code.FailedPrecondition,
      reason: 'SHOP_NOT_CONFIGURED',
    });
  });

  test('with another currency than the shop has, or one that does not exist', async () => {
    const shopId = await bench.shop();
    expect(await bench.submitError(shopId, { currency: 'EUR' })).toEqual(invalid('currency'));
    expect(await bench.submitError(shopId, { presentmentCurrency: 'GBX' })).toEqual(
      invalid('presentment_currency'),
    );
  });

  test('with an unknown or a disabled destination', async () => {
    const shopId = await bench.shop();
    expect(await bench.submitError(shopId, { destinationId: 99n })).toEqual(
      notFound('DESTINATION'),
    );
    expect(await bench.submitError(shopId, { destinationId: CLOSED_WAREHOUSE })).toEqual(
      stateForbids,
    );
  });

  const most = { shop: '600000000000' };
  const exchange = { title: 'Hat', price: most };
  const tooMuch: [string, Parameters<ReturnsBench['submitError']>[1], string][] = [
    ['lines', { lines: [line({ price: most }), line({ price: most })] }, 'lines'],
    [
      'refunds of a line',
      { lines: [line({ price: most, tax: most, refundItem: most, refundTax: most })] },
      'lines',
    ],
    [
      'shipping of lines',
      { lines: [line({ refundShipping: most }), line({ refundShipping: most })] },
      'lines',
    ],
    [
      'a refund',
      { lines: [line({ price: most })], amounts: { creditShipping: most } },
      'amounts.refund',
    ],
    ['exchanges', { outcome: Outcome.UPSELL, exchanges: [exchange, exchange] }, 'exchanges'],
  ];

  test.each(tooMuch)('whose %s add up to more than 10^12', async (_, more, field) => {
    expect(await bench.submitError(await bench.shop(), more)).toEqual(invalid(field));
  });

  const faults: [string, Parameters<ReturnsBench['submitError']>[1], string][] = [
    ['no key', { idempotencyKey: ' ' }, 'idempotency_key'],
    ['no order', { order: undefined }, 'order'],
    ['a nameless order', { order: { providerOrderId: 1n } }, 'order.name'],
    ['a name that no order has', { order: { name: '#1' } }, 'order.name'],
    [
      'an id above 2^53-1',
      { order: { name: '#1', providerOrderId: 2n ** 53n } },
      'order.provider_order_id',
    ],
    ['no outcome', { outcome: Outcome.UNSPECIFIED }, 'outcome'],
    ['no lines', { lines: [] }, 'lines'],
    ['251 lines', { lines: Array.from({ length: 251 }, () => line()) }, 'lines'],
    ['no price', { lines: [line({ price: undefined })] }, 'lines[0].price'],
    ['half a price', { lines: [line({ price: { presentment: '1' } })] }, 'lines[0].price.shop'],
    ['three decimals', { lines: [line({ price: { shop: '1.005' } })] }, 'lines[0].price.shop'],
    ['a negative sum', { lines: [line({ tax: { shop: '-1' } })] }, 'lines[0].tax.shop'],
    ['words for a sum', { lines: [line({ tax: { shop: '1e3' } })] }, 'lines[0].tax.shop'],
    [
      'a sum above 10^12',
      { lines: [line({ price: { shop: '1000000000000.01' } })] },
      'lines[0].price.shop',
    ],
    ['a negative total', { lines: [line({ discount: { shop: '21' } })] }, 'lines'],
    ['quantity 0', { lines: [line({ quantity: 0 })] }, 'lines[0].quantity'],
    ['too large a quantity', { lines: [line({ quantity: 1_000_001 })] }, 'lines[0].quantity'],
    ['NUL', { packageReference: 'a\0' }, 'package_reference'],
    ['a blank flag reason', { flagReasons: [' '] }, 'flag_reasons[0]'],
    [
      'no presentment sum where the currencies differ',
      { presentmentCurrency: 'EUR' },
      'lines[0].price.presentment',
    ],
    [
      'different sums in one currency',
      { lines: [line({ price: { shop: '20', presentment: '21' } })] },
      'lines[0].price.presentment',
    ],
    ['another refund', { amounts: { refund: { shop: '19.99' } } }, 'amounts.refund'],
    ['shipping that no line has', { amounts: { shipping: { shop: '1' } } }, 'amounts.shipping'],
    [
      'a tax on shipping that no line has',
      { amounts: { shippingTax: { shop: '1' } } },
      'amounts.shipping_tax',
    ],
    [
      'more tax on shipping than shipping',
      { lines: [line({ refundShipping: { shop: '1' }, refundShippingTax: { shop: '1.01' } })] },
      'lines[0].refund_shipping_tax',
    ],
    [
      'more tax on shipping than shipping in the presentment currency alone',
      {
        presentmentCurrency: 'EUR',
        lines: [
          line({
            price: { shop: '20', presentment: '23' },
            refundShipping: { shop: '2', presentment: '1' },
            refundShippingTax: { shop: '1', presentment: '1.01' },
          }),
        ],
      },
      'lines[0].refund_shipping_tax',
    ],
    ['ordered quantity 0', { lines: [line({ orderedQuantity: 0 })] }, 'lines[0].ordered_quantity'],
    ['a negative refund', { amounts: { handlingFee: { shop: '20.01' } } }, 'amounts.return_credit'],
    ['an exchange without items', { outcome: Outcome.EXCHANGE }, 'outcome'],
    [
      'items without an exchange',
      { exchanges: [{ title: 'Hat', price: { shop: '1' } }] },
      'outcome',
    ],
    ['credit that leaves a refund', { outcome: Outcome.CREDIT }, 'outcome'],
    ['a refund that leaves credit', { amounts: { returnCredit: { shop: '1' } } }, 'outcome'],
    [
      'an exchange that is paid on top of',
      {
        outcome: Outcome.EXCHANGE,
        exchanges: [{ title: 'Hat', price: { shop: '20.01' } }],
        amounts: { returnCredit: { shop: '20' } },
      },
      'outcome',
    ],
  ];

  test.each(faults)('with %s', async (_, more, field) => {
    expect(await bench.submitError(await bench.shop(), more)).toEqual(invalid(field));
  });

  test('with one line twice', async () => {
    const twice = line();
    expect(await bench.submitError(await bench.shop(), { lines: [twice, twice] })).toEqual(
      invalid('lines[1].provider_line_item_id'),
    );
  });

  describe.each([
    ['the return', '', RETURN_FIELDS.inputs],
    ['a line item', 'lines[0].', LINE_FIELDS.inputs],
  ])('for a text of %s above its maximum', (_, path, inputs) => {
    const texts = Object.entries(inputs).flatMap(([name, input]): [string, number][] => {
      const max = [191, 100, 2_048].find(
        (length) =>
          input.safeParse('🧣'.repeat(length)).success &&
          !input.safeParse('🧣'.repeat(length + 1)).success,
      );
      return max === undefined ? [] : [[name, max]];
    });
    const submission = (values: Record<string, string>) =>
      path === '' ? values : { lines: [line(values)] };

    test.each(texts)('%s', async (name, max) => {
      const field = `${path}${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
      const tooLong = submission({ [name]: '🧣'.repeat(max + 1) });
      expect(await bench.submitError(await bench.shop(), tooLong)).toEqual(invalid(field));
    });

    test('but not with each at its maximum, of characters beyond the basic plane', async () => {
      // A reference of a payment goes only with a prepaid upsell.
      const alone = texts.filter(([name]) => name !== 'upsellPaymentReference');
      const values = Object.fromEntries(alone.map(([name, max]) => [name, '🧣'.repeat(max)]));
      const submitted = await bench.submit(await bench.shop(), submission(values));
      expect(path === '' ? submitted : submitted.lineItems[0]).toMatchObject(values);
    });
  });
});
