import type {
  LineAmounts,
  LineItem,
  Return,
  Totals,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { netOf } from '../../platform/values/line-value.ts';
import {
  type Both,
  bothOf,
  type Currencies,
  formatAmount,
  minorOf,
  sumsOf,
} from '../../platform/values/money.ts';
import { snakeCase } from '../../platform/values/text.ts';

/** The amounts of a line item. Each is stored in two currencies, and is for the whole quantity. */
export const LINE_AMOUNTS = [
  'price',
  'discount',
  'tax',
  'refundItem',
  'refundTax',
  // Refunded shipping, including its tax.
  'refundShipping',
  // The tax in `refundShipping`.
  'refundShippingTax',
] as const;

/** The amounts of an exchange item. Each is stored in two currencies. */
export const EXCHANGE_AMOUNTS = ['price', 'discount', 'tax'] as const;

/** The amounts of the whole return. Each is stored in two currencies. Shipping is derived from the line items. */
export const RETURN_AMOUNTS = ['creditShipping', 'returnCredit', 'handlingFee', 'refund'] as const;

type Sums<Names extends readonly string[]> = Readonly<Record<Names[number], bigint>>;

/** The submitted amounts of one line item, for its whole quantity, in minor units of one currency. */
export type LineSums = Sums<typeof LINE_AMOUNTS>;

/** The submitted amounts of one exchange item, in minor units of one currency. */
export type ExchangeSums = Sums<typeof EXCHANGE_AMOUNTS>;

/** The submitted amounts of a whole return, in minor units of one currency. */
export type ReturnSums = Sums<typeof RETURN_AMOUNTS>;

/**
 * The amounts that are stored with a return: its own, and those totals of its line items that a constraint of the table
 * uses.
 */
export const STORED_RETURN_AMOUNTS = [
  ...RETURN_AMOUNTS,
  'returnTotal',
  'shipping',
  'shippingTax',
] as const;

/** The stored amounts of a return in one currency. */
export type CheckedSums = Readonly<Record<(typeof STORED_RETURN_AMOUNTS)[number], bigint>>;

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

/** Converts amounts in minor units of a currency to texts with its decimals. */
export function amountTexts<K extends string>(
  sums: Readonly<Record<K, bigint>>,
  currency: string,
): Record<K, string> {
  const texts: Record<string, string> = {};
  for (const [name, minor] of Object.entries<bigint>(sums))
    texts[name] = formatAmount(minor, currency);
  // `Object.entries` loses the type of the keys.
  return texts as Record<K, string>;
}

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

/** Returns the net value of all line items together. */
export function returnTotalOf(lines: readonly LineSums[]): bigint {
  return lines.reduce((sum, line) => sum + netOf(line), 0n);
}

/** Returns the refunded shipping, including its tax. */
export function shippingOf(lines: readonly LineSums[]): bigint {
  return sumBy(lines, (line) => line.refundShipping);
}

/** Returns the tax in {@link shippingOf}. */
export function shippingTaxOf(lines: readonly LineSums[]): bigint {
  return sumBy(lines, (line) => line.refundShippingTax);
}

/**
 * Returns the refund: return total + shipping + credit shipping - return credit - handling fee. It is negative when
 * credit and fee are larger than the other amounts together. The constraints `returns_refund_rule` and
 * `returns_presentment_refund_rule` check the same formula.
 */
export function refundOf(lines: readonly LineSums[], sums: Omit<ReturnSums, 'refund'>): bigint {
  const returned = returnTotalOf(lines) + shippingOf(lines) + sums.creditShipping;
  return returned - sums.returnCredit - sums.handlingFee;
}

/** Computes all totals of a return in one currency. Never rounds or converts. */
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

/**
 * Returns the amounts of one line item in both currencies.
 *
 * @param at path of the line item in the request, such as `lines[0]`.
 * @param read reads one amount by its name. Its second argument is the path of the field.
 * @throws DomainError INVALID_ARGUMENT when the tax on shipping exceeds the shipping, which includes the tax.
 */
export function lineSumsFrom(
  at: string,
  read: (name: keyof LineSums, field: string) => Both<bigint>,
): Both<LineSums> {
  const sums = bothOf(LINE_AMOUNTS, (name) => read(name, `${at}.${snakeCase(name)}`));
  if ([sums.shop, sums.presentment].some((one) => one.refundShippingTax > one.refundShipping)) {
    throw invalidField(
      `${at}.refund_shipping_tax`,
      'must not exceed refund_shipping, which includes it',
    );
  }
  return sums;
}

/**
 * Requires that a line item refunds at most what it cost, in both currencies.
 *
 * @param at path of the line item in the request.
 * @throws DomainError INVALID_ARGUMENT
 */
export function requireWithinCost(at: string, sums: Both<LineSums>, currencies: Currencies): void {
  for (const side of ['shop', 'presentment'] as const) {
    const { price, discount, tax, refundItem, refundTax } = sums[side];
    const goods = price > discount ? price - discount : 0n;
    const most = (limit: bigint) =>
      `must not exceed ${formatAmount(limit, currencies[side])} ${currencies[side]}`;
    if (refundItem > goods) {
      throw invalidField(`${at}.refund_item`, `${most(goods)}, which is price - discount`);
    }
    if (refundTax > tax) {
      throw invalidField(`${at}.refund_tax`, `${most(tax)}, which is the tax of the line item`);
    }
  }
}

/** The amounts of a line item in both currencies. */
export function lineSumsIn(line: LineItem, currencies: Currencies): Both<LineSums> {
  return {
    shop: lineSide(line.amounts, currencies.shop),
    presentment: lineSide(line.presentmentAmounts, currencies.presentment),
  };
}

function lineSide(amounts: LineAmounts | undefined, currency: string): LineSums {
  return sumsOf(LINE_AMOUNTS, (name) => minorOf(amounts?.[name] ?? '0', currency));
}

/** The amounts of the exchange items in both currencies. */
export function exchangeSumsIn(current: Return): Both<ExchangeSums>[] {
  return current.exchanges.map((exchange) => {
    const side = (pick: 'shop' | 'presentment', currency: string): ExchangeSums =>
      sumsOf(EXCHANGE_AMOUNTS, (name) => minorOf(exchange[name]?.[pick] ?? '0', currency));
    return {
      shop: side('shop', current.currency),
      presentment: side('presentment', current.presentmentCurrency),
    };
  });
}

/** The amounts of the whole return in both currencies. */
export function returnSumsIn(current: Return): Both<ReturnSums> {
  return {
    shop: returnSide(current.totals, current.currency),
    presentment: returnSide(current.presentmentTotals, current.presentmentCurrency),
  };
}

function returnSide(totals: Totals | undefined, currency: string): ReturnSums {
  const minor = (text = '0') => minorOf(text, currency);
  return {
    creditShipping: minor(totals?.creditShippingTotal),
    returnCredit: minor(totals?.returnCreditTotal),
    handlingFee: minor(totals?.handlingFee),
    refund: minor(totals?.refund),
  };
}
