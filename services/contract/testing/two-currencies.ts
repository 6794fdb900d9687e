import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { LabelStatus, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';

export const at = timestampFromDate(new Date('2026-07-01T09:08:07.654Z'));
/** A return with two currencies. */
export const make = (init: MessageInitShape<typeof ReturnSchema>) =>
  create(ReturnSchema, { id: 7n, currency: 'GBP', presentmentCurrency: 'JPY', ...init });

/** All sums are different, so that a swapped field is detected. */
const totals = (start: number, decimals: string) => {
  const fields = [
    ...['total', 'returnProductTotal', 'returnDiscountTotal', 'returnTaxTotal', 'returnTotal'],
    ...['refundShippingTotal', 'refundShippingTaxTotal', 'returnShippingTotal'],
    ...['returnShippingTaxTotal', 'creditShippingTotal', 'returnCreditTotal', 'handlingFee'],
    ...['exchangeProductTotal', 'exchangeDiscountTotal', 'exchangeTaxTotal', 'exchangeTotal'],
    ...['exchangeCreditTotal', 'upsell', 'giftCard', 'refund'],
  ];
  return Object.fromEntries(fields.map((field, index) => [field, `${start + index}${decimals}`]));
};

/** Has a value in every place that depends on the currency. */
export const twoCurrencies = make({
  totals: totals(100, '.00'),
  presentmentTotals: totals(900, ''),
  lineItems: [
    {
      lineItemId: 5n,
      amounts: { price: '1.00', refund: '2.00' },
      presentmentAmounts: { price: '190', discount: '10', tax: '20', refund: '380' },
    },
  ],
  exchanges: [{ exchangeId: 6n, price: { shop: '3.00', presentment: '570' } }],
  refunds: [
    {
      id: 8n,
      gateway: 'cards',
      provider: 'embedded',
      providerRefundId: '5000000000001',
      money: { value: '919', currency: 'JPY' },
      providerCreatedAt: at,
      createdAt: at,
      updatedAt: at,
    },
  ],
  giftCardPresentment: { value: '918', currency: 'JPY' },
  labels: [
    { id: 1n, carrier: 'Old', rate: '4.00', rateMinor: 400n, updatedAt: at },
    {
      id: 2n,
      carrier: 'New',
      trackingNumber: 'T2',
      url: 'https://l/2',
      rate: '3.50',
      rateMinor: 350n,
      status: LabelStatus.OUT_FOR_DELIVERY,
      updatedAt: at,
      lineItemIds: [5n],
    },
  ],
});
