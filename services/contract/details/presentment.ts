import { z } from 'zod';
import type { Return, Totals } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { amount, means } from '../resources/response-fields.ts';
import { textOrNull, zero } from '../views/values.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { refundFields, refundsView } from './refunds.ts';

/** The stored totals in the currency in which the shopper paid (interface: Presentment object). */
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
/** `refund + return_credit_total + handling_fee` is the value of the return (interface: Presentment object). */
const PRESENTMENT = {
  currency: field.other(
    'Currency that the shopper paid in, an ISO 4217 code: that of all amounts here',
    z.string(),
    ({ ret }) => ret.presentmentCurrency,
  ),
  return_product_total: field.amount(
    'Gross value of the line items, before discounts and taxes',
    ({ totals }) => totals?.returnProductTotal,
  ),
  return_discount_total: field.amount(
    'Discounts on the line items',
    ({ totals }) => totals?.returnDiscountTotal,
  ),
  return_tax_total: field.amount('Taxes on the line items', ({ totals }) => totals?.returnTaxTotal),
  return_total: field.amount(
    'Net value of the line items: `return_product_total - return_discount_total + return_tax_total`',
    ({ totals }) => totals?.returnTotal,
  ),
  return_shipping_total: field.amount(
    'Shipping in the refund, its tax included',
    ({ totals }) => totals?.returnShippingTotal,
  ),
  return_shipping_tax_total: field.amount(
    'Tax part of that shipping',
    ({ totals }) => totals?.returnShippingTaxTotal,
  ),
  credit_shipping_total: field.amount(
    'Shipping that the shopper gets back as credit',
    ({ totals }) => totals?.creditShippingTotal,
  ),
  handling_fee: field.amount('Fee that the merchant keeps', ({ totals }) => totals?.handlingFee),
  return_credit_total: field.amount(
    'Value that the shopper gets as credit instead of a refund',
    ({ totals }) => totals?.returnCreditTotal,
  ),
  gift_card: field.amount(
    'Value of the gift card; zero without one',
    ({ totals }) => totals?.giftCard,
  ),
  refund: field.amount(
    'Refund to the payment of the order: `return_total + return_shipping_total + credit_shipping_total - return_credit_total - handling_fee`',
    ({ totals }) => totals?.refund,
  ),
  refund_breakdown: field.other(
    'The refunds that processing made, oldest first; empty until then',
    z.array(breakdown),
    ({ ret }) =>
      refundsView(ret).map(({ gateway, provider, amount: value, currency }) => ({
        gateway,
        provider,
        amount: value,
        currency,
      })),
  ),
  line_items: field.other(
    'Amounts of each line item, in the order of `line_items` of the return',
    z.array(lineAmounts),
    ({ ret, none }) =>
      ret.lineItems.map(({ lineItemId, presentmentAmounts: amounts }) => ({
        line_item_id: lineItemId.toString(),
        price: textOrNull(amounts?.price) ?? none,
        discount: textOrNull(amounts?.discount) ?? none,
        tax: textOrNull(amounts?.tax) ?? none,
      })),
  ),
};

export const presentment = z.object(shapeOf(PRESENTMENT)).meta({ id: 'Presentment' });

export function presentmentView(ret: Return): ViewOf<typeof PRESENTMENT> {
  const none = zero(ret.presentmentCurrency);
  return viewOf(PRESENTMENT, { ret, totals: ret.presentmentTotals, none });
}
