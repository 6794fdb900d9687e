import { z } from 'zod';
import type { Return, Totals } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { amount, nullableText } from '../resources/response-fields.ts';
import { textOrNull, zero } from '../views/values.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { refundsView } from './refunds.ts';

/** Totals in the currency that the shopper paid in, as stored (interface: Presentment object). */
interface PresentmentSource {
  readonly ret: Return;
  readonly totals: Totals | undefined;
  readonly none: string;
}

const breakdown = z.object({
  gateway: nullableText(),
  provider: nullableText(),
  amount: amount(),
  currency: nullableText(),
});
const lineAmounts = z.object({
  line_item_id: z.string(),
  price: amount(),
  discount: amount(),
  tax: amount(),
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

export const presentment = z.object(shapeOf(PRESENTMENT)).meta({ id: 'Presentment' });

export function presentmentView(ret: Return): ViewOf<typeof PRESENTMENT> {
  const none = zero(ret.presentmentCurrency);
  return viewOf(PRESENTMENT, { ret, totals: ret.presentmentTotals, none });
}
