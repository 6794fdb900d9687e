import { type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  LineItemSchema,
  LineOutcome,
  Outcome,
  OutcomeSchema,
  ReturnMethod,
  ReturnSchema,
  ReturnState,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleReturn } from '../sample-return.ts';
import { at, make, twoCurrencies } from '../testing/two-currencies.ts';
import { word, zero } from '../views/values.ts';
import { RETURN_OUTCOMES } from '../vocabulary.ts';
import {
  returnDetailsFields,
  returnDetailsView,
  returnDetails as schema,
} from './return-details.ts';

const bare = make({});

describe('the details of a return with few known fields', () => {
  const details = returnDetailsView(bare);

  test('have every key of the interface', () => {
    expect(Object.keys(details).sort()).toEqual(Object.keys(returnDetailsFields).sort());
    expect(schema.safeParse(details).error).toBeUndefined();
  });

  test('have null, an empty list or zero', () => {
    expect(details).toMatchObject({
      edited_at: null,
      order_number: null,
      provider_order_number: null,
      destination_id: null,
      customer: null,
      customer_email: null,
      gift_card_presentment: null,
      label_status: null,
      label_rate: null,
      label_updated_at: null,
      exchange_order_id: [],
      refunds: [],
      line_items: [],
      labels: [],
      exchanges: [],
      provider_refund_object: [],
      total: '0.00',
      gift_card: '0.00',
      refund: '0',
      multi_currency: true,
    });
  });

  test('always have a presentment object', () => {
    expect(details.presentment).toMatchObject({
      currency: 'JPY',
      refund: '0',
      return_total: '0',
      refund_breakdown: [],
      line_items: [],
    });
  });

  test('of a line have null for absent fields, and empty uploads', () => {
    const [line] = returnDetailsView(make({ lineItems: [{ lineItemId: 5n }] })).line_items;
    expect(line).toMatchObject({
      line_item_id: 5,
      provider_line_item_id: null,
      sku: null,
      price: '0.00',
      outcome: null,
      condition: null,
      disposition: null,
      customer_uploads: { images: [], media: [] },
    });
  });
});

describe('the currency basis', () => {
  test('absent: refund as paid, everything else in the shop currency', () => {
    expect(returnDetailsView(twoCurrencies)).toMatchObject({
      currency: 'GBP',
      total: '100.00',
      refund: '919',
      handling_fee: '111.00',
      exchange: '115.00',
      gift_card: '118.00',
      exchanges: [{ price: '3.00', tax: '0.00' }],
      line_items: [{ price: '1.00', discount: '0.00', refund: '2.00' }],
    });
  });

  test('shop: refund too', () => {
    const details = returnDetailsView(twoCurrencies, 'shop');
    expect(details).toEqual({ ...returnDetailsView(twoCurrencies), refund: '119.00' });
  });

  test('presentment: all top-level and line amounts in it, while `currency` stays the shop’s', () => {
    expect(returnDetailsView(twoCurrencies, 'presentment')).toMatchObject({
      currency: 'GBP',
      total: '900',
      refund: '919',
      handling_fee: '911',
      exchange: '915',
      gift_card: '918',
      upsell: '917',
      exchanges: [{ price: '570', tax: '0' }],
      line_items: [{ price: '190', discount: '10', tax: '20', refund: '380', refund_tax: '0' }],
    });
  });

  test.each([undefined, 'shop', 'presentment'] as const)(
    '%s: what names its currency keeps it, and labels are billed in the shop currency',
    (currencyType) => {
      expect(returnDetailsView(twoCurrencies, currencyType)).toMatchObject({
        presentment: {
          currency: 'JPY',
          return_total: '904',
          refund: '919',
          return_shipping_total: '907',
          return_shipping_tax_total: '908',
          credit_shipping_total: '909',
          gift_card: '918',
          refund_breakdown: [
            { gateway: 'cards', provider: 'embedded', amount: '919', currency: 'JPY' },
          ],
          line_items: [{ line_item_id: '5', price: '190', discount: '10', tax: '20' }],
        },
        gift_card_presentment: { value: '918', currency: 'JPY' },
        refunds: [{ amount: '919', currency: 'JPY' }],
        label_rate: '3.50',
        labels: [{ rate: 400 }, { rate: 350 }],
      });
    },
  );

  test('an exchange without a presentment amount has the shop’s, because both currencies are the same', () => {
    const ret = make({ presentmentCurrency: 'GBP', exchanges: [{ price: { shop: '3.00' } }] });
    expect(returnDetailsView(ret, 'presentment').exchanges[0]?.price).toBe('3.00');
  });
});

test('the sample return is valid and follows the rule of the presentment object', () => {
  const details = returnDetailsView(sampleReturn(1n));
  expect(schema.safeParse(details).error).toBeUndefined();
  const { refund, return_credit_total, handling_fee, ...rest } = details.presentment;
  expect(Number(refund) + Number(return_credit_total) + Number(handling_fee)).toBe(
    Number(rest.return_total) +
      Number(rest.return_shipping_total) +
      Number(rest.credit_shipping_total),
  );
});

describe('single fields', () => {
  test('top-level timestamps have a space, all others are ISO 8601', () => {
    const details = returnDetailsView(
      make({
        createdAt: at,
        editedAt: at,
        lineItems: [{ returnedAt: at }],
        labels: [{ updatedAt: at }],
      }),
    );
    expect(details).toMatchObject({
      created_at: '2026-07-01 09:08:07',
      edited_at: '2026-07-01 09:08:07',
      updated_at: null,
      label_updated_at: '2026-07-01T09:08:07+00:00',
      line_items: [{ returned_at: '2026-07-01T09:08:07+00:00' }],
    });
  });

  test('ids are numbers, except those that the interface defines as strings', () => {
    const ret = make({
      destinationId: 9n,
      order: { id: 1n, providerOrderId: 2n ** 53n - 1n, name: '#1', number: 4n },
      lineItems: [{ lineItemId: 5n, consolidationDestinationId: 6n, providerLineItemId: 3n }],
    });
    expect(returnDetailsView(ret)).toMatchObject({
      id: 7,
      order_id: 1,
      provider_order_id: 9007199254740991,
      order_number: 4,
      destination_id: '9',
      line_items: [
        { line_item_id: 5, provider_line_item_id: 3, consolidation_destination_id: '6' },
      ],
    });
  });

  test('refunds are all strings; the provider refund object has numbers', () => {
    const details = returnDetailsView(twoCurrencies);
    expect(details.refunds).toEqual([
      {
        gateway: 'cards',
        amount: '919',
        currency: 'JPY',
        provider: 'embedded',
        provider_refund_id: '5000000000001',
      },
    ]);
    expect(details.provider_refund_object).toEqual([
      {
        id: 8,
        return_id: 7,
        provider_refund_id: 5000000000001,
        provider_created_at: '2026-07-01T09:08:07+00:00',
        created_at: '2026-07-01T09:08:07+00:00',
        updated_at: '2026-07-01T09:08:07+00:00',
      },
    ]);
  });

  test('the top-level label is the newest; the list is oldest first', () => {
    const details = returnDetailsView(twoCurrencies);
    expect(details).toMatchObject({
      carrier: 'New',
      tracking_number: 'T2',
      label_status: 'out_for_delivery',
      label_url: 'https://l/2',
    });
    expect(details.labels.map(({ carrier }) => carrier)).toEqual(['Old', 'New']);
    expect(details.labels[1]?.line_items).toEqual([5]);
  });

  test('a label with an unknown rate has null', () => {
    expect(returnDetailsView(make({ labels: [{ rate: '' }] }))).toMatchObject({
      label_rate: null,
      labels: [{ rate: null }],
    });
  });

  test('a condition without a category has null for it', () => {
    const [line] = returnDetailsView(
      make({ lineItems: [{ condition: { images: ['u'] } }] }),
    ).line_items;
    expect(line?.condition).toMatchObject({ condition_category: null, images: ['u'] });
  });

  test('uploads are separated by kind', () => {
    const uploads = [
      { id: 1n, kind: CustomerUpload_Kind.IMAGE, source: 'customer', url: 'i', createdAt: at },
      { id: 2n, kind: CustomerUpload_Kind.MEDIA, mediaType: 'video', url: 'm', createdAt: at },
    ];
    const created_at = '2026-07-01T09:08:07+00:00';
    expect(
      returnDetailsView(make({ lineItems: [{ uploads }] })).line_items[0]?.customer_uploads,
    ).toEqual({
      images: [{ id: 1, source: 'customer', url: 'i', created_at }],
      media: [{ id: 2, type: 'video', url: 'm', created_at }],
    });
  });

  test('enums are the words of the interface', () => {
    const outcomes = OutcomeSchema.values.map(({ number }) =>
      word(OutcomeSchema, number, RETURN_OUTCOMES),
    );
    expect(outcomes).toEqual([null, ...RETURN_OUTCOMES]);
    const ret = make({
      state: ReturnState.REVIEW,
      outcome: Outcome.EXCHANGE_CREDIT,
      lineItems: [{ outcome: LineOutcome.DEFAULT }],
    });
    expect(returnDetailsView(ret)).toMatchObject({
      state: 'review',
      outcome: 'exchange+credit',
      line_items: [{ outcome: 'default' }],
    });
  });

  test.each([
    ['GBP', '0.00'],
    ['JPY', '0'],
    ['KWD', '0.000'],
    ['CLF', '0.0000'],
  ])('zero in %s is %s', (currency, text) => {
    expect(zero(currency)).toBe(text);
  });
});

// All values differ, so that a field with the value of another field is detected.

/** A text of its own for each field of the message that is a text. */
function ownTexts({ fields }: DescMessage): Record<string, string> {
  const texts = fields.filter(
    ({ fieldKind, scalar }) => fieldKind === 'scalar' && scalar === ScalarType.STRING,
  );
  return Object.fromEntries(texts.map(({ localName, name }) => [localName, `own ${name}`]));
}

describe('return details', () => {
  test('each text is that of the field with its name, also one that is new', () => {
    const currencies = { currency: 'GBP', presentmentCurrency: 'JPY' };
    const details = returnDetailsView(
      make({ ...ownTexts(ReturnSchema), ...currencies, lineItems: [ownTexts(LineItemSchema)] }),
    );
    for (const one of [details, ...details.line_items]) {
      const own = Object.entries(one).filter(([, value]) => String(value).startsWith('own '));
      expect(own.length).toBeGreaterThan(1);
      for (const [name, value] of own) expect(value).toBe(`own ${name}`);
    }
  });

  test('each field of a return has its own value', () => {
    const details = returnDetailsView(
      make({
        order: { id: 1n, name: '#2', number: 3n, providerOrderNumber: 4n, providerOrderId: 5n },
        customer: { email: 'ann@example.com', firstName: 'Ann', lastName: 'Lee' },
        exchangeOrders: [
          { id: 8n, name: '#EX8' },
          { id: 9n, name: '#EX9' },
        ],
        giftCardOrder: { id: 10n, name: '#GC10' },
        statusPageUrl: 'https://status.example.com/',
        packageReference: 'parcel',
        returnMethod: ReturnMethod.IN_STORE,
        type: ReturnType.WARRANTY,
      }),
    );
    expect(details).toMatchObject({
      order_id: 1,
      order_name: '#2',
      order_number: 3,
      provider_order_number: 4,
      provider_order_id: 5,
      customer: 'ann@example.com',
      customer_email: 'ann@example.com',
      customer_first_name: 'Ann',
      customer_last_name: 'Lee',
      exchange_order_name: ['#EX8', '#EX9'],
      exchange_order_id: [8, 9],
      gift_card_order_name: '#GC10',
      gift_card_order_id: 10,
      status_page_url: 'https://status.example.com/',
      package_reference: 'parcel',
      return_method: 'in_store',
      type: 'warranty',
    });
  });

  test('each field of a line item has its own value', () => {
    const inspection = { inspectedAt: at, returnProcessor: 'processor', note: 'of the grading' };
    const line = {
      lineItemId: 1n,
      providerLineItemId: 2n,
      providerLineItemExternalId: '3',
      productId: 4n,
      variantId: 5n,
      sku: 'sku',
      lineItemTitle: 'product',
      variantTitle: 'variant',
      title: 'title',
      image: 'https://image.example.com/',
      exchangeVariant: 'exchange',
      barcode: 'barcode',
      providerRestockLocationId: '6',
      consolidationTracking: 'tracking',
      consolidationDestinationId: 7n,
      reason: 'reason',
      parentReason: 'group',
      condition: { ...inspection, description: 'worn', images: ['https://image.example.com/2'] },
      disposition: {
        inspectedAt: at,
        outcome: DispositionOutcome.RECYCLE,
        returnProcessor: 'assessor',
        note: 'of the assessment',
      },
    };
    const inspected_at = '2026-07-01T09:08:07+00:00';
    expect(returnDetailsView(make({ lineItems: [line] })).line_items).toMatchObject([
      {
        line_item_id: 1,
        provider_line_item_id: 2,
        provider_line_item_external_id: '3',
        product_id: 4,
        variant_id: 5,
        sku: 'sku',
        line_item_title: 'product',
        variant_title: 'variant',
        title: 'title',
        image: 'https://image.example.com/',
        exchange_variant: 'exchange',
        barcode: 'barcode',
        provider_restock_location_id: '6',
        consolidation_tracking: 'tracking',
        consolidation_destination_id: '7',
        reason: 'reason',
        parent_reason: 'group',
        condition: {
          description: 'worn',
          return_processor: 'processor',
          note: 'of the grading',
          inspected_at,
          images: ['https://image.example.com/2'],
        },
        disposition: {
          disposition_outcome: 'recycle',
          return_processor: 'assessor',
          note: 'of the assessment',
          inspected_at,
        },
      },
    ]);
  });

  test('each total is its own field', () => {
    expect(returnDetailsView(twoCurrencies, 'shop')).toMatchObject({
      total: '100.00',
      return_product_total: '101.00',
      return_discount_total: '102.00',
      return_tax_total: '103.00',
      return_total: '104.00',
      refund_shipping_total: '105.00',
      refund_shipping_tax_total: '106.00',
      return_credit_total: '110.00',
      handling_fee: '111.00',
      exchange_product_total: '112.00',
      exchange_discount_total: '113.00',
      exchange_tax_total: '114.00',
      exchange_total: '115.00',
      exchange: '115.00',
      exchange_credit_total: '116.00',
      upsell: '117.00',
      gift_card: '118.00',
      refund: '119.00',
      presentment: {
        return_product_total: '901',
        return_discount_total: '902',
        return_tax_total: '903',
        return_total: '904',
        return_shipping_total: '907',
        return_shipping_tax_total: '908',
        credit_shipping_total: '909',
        return_credit_total: '910',
        handling_fee: '911',
        gift_card: '918',
        refund: '919',
      },
    });
  });

  test('each amount of a line item is its own field', () => {
    const amounts = {
      price: '1.00',
      discount: '2.00',
      tax: '3.00',
      refund: '4.00',
      refundTax: '5.00',
      refundItem: '6.00',
      refundShipping: '7.00',
      refundExcludingShipping: '8.00',
      refundShippingTax: '9.00',
      refundExcludingShippingTax: '10.00',
    };
    expect(returnDetailsView(make({ lineItems: [{ amounts }] })).line_items).toMatchObject([
      {
        price: '1.00',
        discount: '2.00',
        tax: '3.00',
        refund: '4.00',
        refund_tax: '5.00',
        refund_item: '6.00',
        refund_shipping: '7.00',
        refund_excluding_shipping: '8.00',
        refund_shipping_tax: '9.00',
        refund_excluding_shipping_tax: '10.00',
      },
    ]);
  });
});
