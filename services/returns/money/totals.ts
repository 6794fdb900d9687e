/** Amounts of a line item, each in two currencies and for the whole quantity. */
export const LINE_AMOUNTS = [
  'price',
  'discount',
  'tax',
  'refundItem',
  'refundTax',
  // Includes its tax.
  'refundShipping',
  // The tax part of refundShipping.
  'refundShippingTax',
] as const;

/** Amounts of an exchange item, each in two currencies. */
export const EXCHANGE_AMOUNTS = ['price', 'discount', 'tax'] as const;

/** Amounts of the whole return, each in two currencies. Shipping is derived from the line items. */
export const RETURN_AMOUNTS = ['creditShipping', 'returnCredit', 'handlingFee', 'refund'] as const;

type Sums<Names extends readonly string[]> = Readonly<Record<Names[number], bigint>>;

/** The submitted amounts of one line item, for its whole quantity, in minor units of one currency. */
export type LineSums = Sums<typeof LINE_AMOUNTS>;

/** The submitted amounts of one exchange item, in minor units of one currency. */
export type ExchangeSums = Sums<typeof EXCHANGE_AMOUNTS>;

/** The submitted amounts of a whole return, in minor units of one currency. */
export type ReturnSums = Sums<typeof RETURN_AMOUNTS>;

/** The derived amounts of a return, in minor units of one currency. */
export type TotalSums = Readonly<Record<TotalName, bigint>>;
export type TotalName =
  | 'total'
  | 'returnProductTotal'
  | 'returnDiscountTotal'
  | 'returnTaxTotal'
  | 'returnTotal'
  | 'refundShippingTotal'
  | 'refundShippingTaxTotal'
  | 'returnShippingTotal'
  | 'returnShippingTaxTotal'
  | 'creditShippingTotal'
  | 'returnCreditTotal'
  | 'handlingFee'
  | 'exchangeProductTotal'
  | 'exchangeDiscountTotal'
  | 'exchangeTaxTotal'
  | 'exchangeTotal'
  | 'exchangeCreditTotal'
  | 'upsell'
  | 'giftCard'
  | 'refund';

/** The refunds of one line item, derived from their parts. */
export function lineRefunds(line: LineSums) {
  const refundExcludingShipping = line.refundItem + line.refundTax;
  const refund = refundExcludingShipping + line.refundShipping;
  return {
    refund,
    refundExcludingShipping,
    refundExcludingShippingTax: refund - line.refundShippingTax,
  };
}

/** Net value: price minus discount plus tax. */
export function netOf(sums: ExchangeSums): bigint {
  return sums.price - sums.discount + sums.tax;
}

/** Net value of all line items. */
export function returnTotalOf(lines: readonly LineSums[]): bigint {
  return lines.reduce((sum, line) => sum + netOf(line), 0n);
}

/** Refunded shipping, its tax included. */
export function shippingOf(lines: readonly LineSums[]): bigint {
  return sumBy(lines, (line) => line.refundShipping);
}

/** The tax part of {@link shippingOf}. */
export function shippingTaxOf(lines: readonly LineSums[]): bigint {
  return sumBy(lines, (line) => line.refundShippingTax);
}

/**
 * The refund: return total + shipping + credit shipping - return credit - handling fee. Negative when credit and fee
 * exceed the rest.
 */
export function refundOf(lines: readonly LineSums[], sums: Omit<ReturnSums, 'refund'>): bigint {
  const returned = returnTotalOf(lines) + shippingOf(lines) + sums.creditShipping;
  return returned - sums.returnCredit - sums.handlingFee;
}

/** Derives all totals of a return in one currency. Never rounds or converts. */
export function totalsOf(
  lines: readonly LineSums[],
  exchanges: readonly ExchangeSums[],
  sums: ReturnSums,
): TotalSums {
  const returnTotal = returnTotalOf(lines);
  const refundShippingTotal = shippingOf(lines);
  const refundShippingTaxTotal = shippingTaxOf(lines);
  const exchangeTotal = exchanges.reduce((sum, exchange) => sum + netOf(exchange), 0n);
  const exchangeCreditTotal = sums.returnCredit < exchangeTotal ? sums.returnCredit : exchangeTotal;
  return {
    total: returnTotal + refundShippingTotal - sums.handlingFee,
    returnProductTotal: sumBy(lines, (line) => line.price),
    returnDiscountTotal: sumBy(lines, (line) => line.discount),
    returnTaxTotal: sumBy(lines, (line) => line.tax),
    returnTotal,
    refundShippingTotal,
    refundShippingTaxTotal,
    returnShippingTotal: refundShippingTotal,
    returnShippingTaxTotal: refundShippingTaxTotal,
    creditShippingTotal: sums.creditShipping,
    returnCreditTotal: sums.returnCredit,
    handlingFee: sums.handlingFee,
    exchangeProductTotal: sumBy(exchanges, (exchange) => exchange.price),
    exchangeDiscountTotal: sumBy(exchanges, (exchange) => exchange.discount),
    exchangeTaxTotal: sumBy(exchanges, (exchange) => exchange.tax),
    exchangeTotal,
    exchangeCreditTotal,
    upsell: exchangeTotal - exchangeCreditTotal,
    giftCard: sums.returnCredit - exchangeCreditTotal,
    refund: sums.refund,
  };
}

function sumBy<T>(items: readonly T[], pick: (item: T) => bigint): bigint {
  return items.reduce((sum, item) => sum + pick(item), 0n);
}
