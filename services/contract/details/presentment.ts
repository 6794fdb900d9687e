import { z } from 'zod';
import type { Return, Totals } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { amount, means } from '../resources/response-fields.ts';
import { textOrNull, zero } from '../views/values.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { refundFields, refundsView } from './refunds.ts';

/** Totals in the currency that the shopper paid in, as stored (interface: Presentment object). */
interface PresentmentSource {
  readonly ret: Return;
  readonly totals: Totals | undefined;
  readonly none: string;
}

const breakdown = z.object(refundFields);
const lineAmounts = z.object({
  line_item_id: means(z.string(), 'Identifier of the line item, as text'),
  price: means(amount(), 'Gross price of the whole quantity, before discount and tax'),
  discount: means(amount(), 'Discount on the line item'),
  tax: means(amount(), 'Tax of the line item'),
});

const field = viewFields<PresentmentSource>();
const PRESENTMENT = {
  currency: field.other(z.string(), ({ ret }) => ret.presentmentCurrency),
  return_product_total: field.amount(({ totals }) => totals?.returnProductTotal),
  return_discount_total: field.amount(({ totals }) => totals?.returnDiscountTotal),
  return_tax_total: field.amount(({ totals }) => totals?.returnTaxTotal),
  return_total: field.amount(({ totals }) => totals?.returnTotal),
  return_shipping_total: field.amount(({ totals }) => totals?.returnShippingTotal),
  return_shipping_tax_total: field.amount(({ totals }) => totals?.returnShippingTaxTotal),
  credit_shipping_total: field.amount(({ totals }) => totals?.creditShippingTotal),
  handling_fee: field.amount(({ totals }) => totals?.handlingFee),
  return_credit_total: field.amount(({ totals }) => totals?.returnCreditTotal),
  gift_card: field.amount(({ totals }) => totals?.giftCard),
  refund: field.amount(({ totals }) => totals?.refund),
  refund_breakdown: field.other(z.array(breakdown), ({ ret }) =>
    refundsView(ret).map(({ gateway, provider, amount: value, currency }) => ({
      gateway,
      provider,
      amount: value,
      currency,
    })),
  ),
  line_items: field.other(z.array(lineAmounts), ({ ret, none }) =>
    ret.lineItems.map(({ lineItemId, presentmentAmounts: amounts }) => ({
      line_item_id: lineItemId.toString(),
      price: textOrNull(amounts?.price) ?? none,
      discount: textOrNull(amounts?.discount) ?? none,
      tax: textOrNull(amounts?.tax) ?? none,
    })),
  ),
};

/** `refund + return_credit_total + handling_fee` is the value of the return (interface: Presentment object). */
const TEXTS = {
  currency: 'Currency that the shopper paid in, an ISO 4217 code: that of all amounts here',
  return_product_total: 'Gross value of the line items, before discounts and taxes',
  return_discount_total: 'Discounts on the line items',
  return_tax_total: 'Taxes on the line items',
  return_total:
    'Net value of the line items: `return_product_total - return_discount_total + return_tax_total`',
  return_shipping_total: 'Shipping in the refund, its tax included',
  return_shipping_tax_total: 'Tax part of that shipping',
  credit_shipping_total: 'Shipping that the shopper gets back as credit',
  handling_fee: 'Fee that the merchant keeps',
  return_credit_total: 'Value that the shopper gets as credit instead of a refund',
  gift_card: 'Value of the gift card; zero without one',
  refund:
    'Refund to the payment of the order: `return_total + return_shipping_total + credit_shipping_total - return_credit_total - handling_fee`',
  refund_breakdown: 'The refunds that processing made, oldest first; empty until then',
  line_items: 'Amounts of each line item, in the order of `line_items` of the return',
} as const;

export const presentment = z.object(shapeOf(PRESENTMENT, TEXTS)).meta({ id: 'Presentment' });

export function presentmentView(ret: Return): ViewOf<typeof PRESENTMENT> {
  const none = zero(ret.presentmentCurrency);
  return viewOf(PRESENTMENT, { ret, totals: ret.presentmentTotals, none });
}
