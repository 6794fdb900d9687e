import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnDetails } from '../resources/return-details.ts';
import { refundsView } from './return-parts.ts';
import { known, zero } from './values.ts';

/** Totals in the currency the shopper paid in, as stored (interface: Presentment object). */
export function presentmentView(ret: Return): ReturnDetails['presentment'] {
  const totals = ret.presentmentTotals;
  const none = zero(ret.presentmentCurrency);
  const sum = (text: string | undefined) => known(text) ?? none;
  return {
    currency: ret.presentmentCurrency,
    return_product_total: sum(totals?.returnProductTotal),
    return_discount_total: sum(totals?.returnDiscountTotal),
    return_tax_total: sum(totals?.returnTaxTotal),
    return_total: sum(totals?.returnTotal),
    return_shipping_total: sum(totals?.returnShippingTotal),
    return_shipping_tax_total: sum(totals?.returnShippingTaxTotal),
    credit_shipping_total: sum(totals?.creditShippingTotal),
    handling_fee: sum(totals?.handlingFee),
    return_credit_total: sum(totals?.returnCreditTotal),
    gift_card: sum(totals?.giftCard),
    refund: sum(totals?.refund),
    refund_breakdown: refundsView(ret).map(({ gateway, provider, amount, currency }) => ({
      gateway,
      provider,
      amount,
      currency,
    })),
    line_items: ret.lineItems.map(({ lineItemId, presentmentAmounts }) => ({
      line_item_id: lineItemId.toString(),
      price: sum(presentmentAmounts?.price),
      discount: sum(presentmentAmounts?.discount),
      tax: sum(presentmentAmounts?.tax),
    })),
  };
}
