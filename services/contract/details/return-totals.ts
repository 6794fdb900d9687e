import type { Totals } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { inShopUnlessSelected, viewFields } from './field.ts';

/** The totals of a return in the requested currency. `none` is zero as text. */
interface TotalsSource {
  readonly totals: Totals | undefined;
  readonly none: string;
}

const field = viewFields<TotalsSource>();

/** The totals of return details. */
export const TOTALS = {
  return_product_total: field.amount(
    inShopUnlessSelected('Gross value of the line items, before discounts and taxes'),
    ({ totals }) => totals?.returnProductTotal,
  ),
  return_discount_total: field.amount(
    inShopUnlessSelected('Discounts on the line items'),
    ({ totals }) => totals?.returnDiscountTotal,
  ),
  return_tax_total: field.amount(
    inShopUnlessSelected('Taxes on the line items'),
    ({ totals }) => totals?.returnTaxTotal,
  ),
  return_total: field.amount(
    inShopUnlessSelected(
      'Net value of the line items: `return_product_total - return_discount_total + return_tax_total`',
    ),
    ({ totals }) => totals?.returnTotal,
  ),
  refund_shipping_total: field.amount(
    inShopUnlessSelected(
      'Shipping in the refund, its tax included: the sum of `refund_shipping` of the line items',
    ),
    ({ totals }) => totals?.refundShippingTotal,
  ),
  refund_shipping_tax_total: field.amount(
    inShopUnlessSelected(
      'Tax part of that shipping: the sum of `refund_shipping_tax` of the line items',
    ),
    ({ totals }) => totals?.refundShippingTaxTotal,
  ),
  return_credit_total: field.amount(
    inShopUnlessSelected('Value that the shopper gets as credit instead of a refund'),
    ({ totals }) => totals?.returnCreditTotal,
  ),
  handling_fee: field.amount(
    inShopUnlessSelected('Fee that the merchant keeps'),
    ({ totals }) => totals?.handlingFee,
  ),
  exchange_product_total: field.amount(
    inShopUnlessSelected('Gross value of the exchange items, before discounts and taxes'),
    ({ totals }) => totals?.exchangeProductTotal,
  ),
  exchange_discount_total: field.amount(
    inShopUnlessSelected('Discounts on the exchange items'),
    ({ totals }) => totals?.exchangeDiscountTotal,
  ),
  exchange_tax_total: field.amount(
    inShopUnlessSelected('Taxes on the exchange items'),
    ({ totals }) => totals?.exchangeTaxTotal,
  ),
  exchange_total: field.amount(
    inShopUnlessSelected(
      'Net value of the exchange: `exchange_product_total - exchange_discount_total + exchange_tax_total`',
    ),
    ({ totals }) => totals?.exchangeTotal,
  ),
  exchange_credit_total: field.amount(
    inShopUnlessSelected(
      'Credit that pays for the exchange: the smaller of `return_credit_total` and `exchange_total`',
    ),
    ({ totals }) => totals?.exchangeCreditTotal,
  ),
  upsell: field.amount(
    inShopUnlessSelected(
      'What the shopper pays on top for the exchange: `exchange_total - exchange_credit_total`',
    ),
    ({ totals }) => totals?.upsell,
  ),
};
