import { describe, expect, test } from '@jest/globals';
import {
  DispositionOutcome,
  ReturnMethod,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { at, make, twoCurrencies } from '../testing/two-currencies.ts';
import { returnDetailsView } from './return-details.ts';

// All values differ, so that a field with the value of another field is detected.

describe('return details', () => {
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
