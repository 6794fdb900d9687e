import type { Currencies } from '../store/line-message.ts';
import type { Both } from './amounts.ts';
import { formatAmount } from './money.ts';
import type { CheckedSums, GivenShipping } from './return-sums.ts';
import type { ExchangeSums, LineSums } from './totals.ts';

/** Columns of sums by their name in the code; the presentment ones have a prefix. */
export const LINE_AMOUNTS = {
  price: 'price',
  discount: 'discount',
  tax: 'tax',
  refundItem: 'refund_item',
  refundTax: 'refund_tax',
  refundShipping: 'refund_shipping',
  refundShippingTax: 'refund_shipping_tax',
} as const satisfies Record<keyof LineSums, string>;

export const EXCHANGE_AMOUNTS = {
  price: 'price',
  discount: 'discount',
  tax: 'tax',
} as const satisfies Record<keyof ExchangeSums, string>;

export const RETURN_AMOUNTS = {
  returnTotal: 'return_total',
  shipping: 'shipping',
  shippingTax: 'shipping_tax',
  creditShipping: 'credit_shipping',
  returnCredit: 'return_credit',
  handlingFee: 'handling_fee',
  refund: 'refund',
} as const satisfies Record<keyof CheckedSums, string>;

/** Which of the shipping sums were given, as columns. */
export function shippingColumns(given: GivenShipping) {
  return { shipping_given: given.shipping, shipping_tax_given: given.shippingTax };
}

/** Sums as columns, in both currencies. */
export function amountColumns<K extends string>(
  columns: Readonly<Record<K, string>>,
  sums: Both<Readonly<Record<K, bigint>>>,
  currencies: Currencies,
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const key in columns) {
    const column = columns[key];
    values[column] = formatAmount(sums.shop[key], currencies.shop);
    values[`presentment_${column}`] = formatAmount(sums.presentment[key], currencies.presentment);
  }
  return values;
}
