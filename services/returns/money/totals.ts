/** One line's submitted sums in minor units of one currency, for the whole quantity. */
export interface LineSums {
  readonly price: bigint;
  readonly discount: bigint;
  readonly tax: bigint;
  readonly refundItem: bigint;
  readonly refundTax: bigint;
  readonly refundShipping: bigint;
  readonly refundShippingTax: bigint;
}

/** One exchange item's submitted sums in minor units of one currency. */
export interface ExchangeSums {
  readonly price: bigint;
  readonly discount: bigint;
  readonly tax: bigint;
}

/** The whole return's submitted sums in minor units of one currency. */
export interface ReturnSums {
  readonly shipping: bigint;
  readonly shippingTax: bigint;
  readonly creditShipping: bigint;
  readonly returnCredit: bigint;
  readonly handlingFee: bigint;
  readonly refund: bigint;
}

/** Everything that is derived, in minor units of one currency. */
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

/** The refunds of one line that follow from its parts. */
export function lineRefunds(line: LineSums) {
  const refundExcludingShipping = line.refundItem + line.refundTax;
  const refundExcludingShippingTax = refundExcludingShipping + line.refundShipping;
  return {
    refund: refundExcludingShippingTax + line.refundShippingTax,
    refundExcludingShipping,
    refundExcludingShippingTax,
  };
}

/** Net value: gross less discount plus tax. */
export function netOf(sums: ExchangeSums): bigint {
  return sums.price - sums.discount + sums.tax;
}

/** Net value of all lines. */
export function returnTotalOf(lines: readonly LineSums[]): bigint {
  return lines.reduce((sum, line) => sum + netOf(line), 0n);
}

/**
 * The refund that makes refund + return credit + handling fee equal to return total + shipping +
 * credit shipping; negative when credit and fee exceed what there is.
 */
export function refundOf(returnTotal: bigint, sums: Omit<ReturnSums, 'refund'>): bigint {
  return returnTotal + sums.shipping + sums.creditShipping - sums.returnCredit - sums.handlingFee;
}

/** Derives every sum of a return in one currency. Never rounds or converts. */
export function totalsOf(
  lines: readonly LineSums[],
  exchanges: readonly ExchangeSums[],
  sums: ReturnSums,
): TotalSums {
  const returnTotal = returnTotalOf(lines);
  const refundShippingTotal = sumBy(lines, (line) => line.refundShipping);
  const refundShippingTaxTotal = sumBy(lines, (line) => line.refundShippingTax);
  const exchangeTotal = exchanges.reduce((sum, exchange) => sum + netOf(exchange), 0n);
  const exchangeCreditTotal = sums.returnCredit < exchangeTotal ? sums.returnCredit : exchangeTotal;
  return {
    total: returnTotal + refundShippingTotal + refundShippingTaxTotal - sums.handlingFee,
    returnProductTotal: sumBy(lines, (line) => line.price),
    returnDiscountTotal: sumBy(lines, (line) => line.discount),
    returnTaxTotal: sumBy(lines, (line) => line.tax),
    returnTotal,
    refundShippingTotal,
    refundShippingTaxTotal,
    returnShippingTotal: sums.shipping,
    returnShippingTaxTotal: sums.shippingTax,
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
