import { describe, expect, test } from '@jest/globals';
import { sampleReturn } from '../sample-return.ts';
import { make, twoCurrencies } from '../testing/two-currencies.ts';
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
