import type { z } from 'zod';
import { decimalsOf } from '../../platform/values/currencies.ts';
import { type LineValue, netOf } from '../../platform/values/line-value.ts';
import { type Both, inBoth, minorOf, sameDecimal } from '../../platform/values/money.ts';
import { printable } from '../../platform/values/text.ts';
import type { FoundLine, FoundOrder, FoundVariant, OrderFacts } from '../provider.ts';
import type { orderAnswer } from './protocol.ts';

export type AnsweredOrder = NonNullable<z.infer<typeof orderAnswer>['order']>;
type AnsweredLine = AnsweredOrder['lines'][number];
type AnsweredVariant = NonNullable<AnsweredLine['variants']>[number];
type Side = keyof Both<unknown>;

/** Converts the order in an answer to `order.find` in which {@link problemsOfOrder} finds nothing. */
export function foundOrder(order: AnsweredOrder): FoundOrder {
  const currencies = { shop: order.currency, presentment: order.presentment_currency };
  const minor = (amount: Both<string>) => inBoth((side) => minorOf(amount[side], currencies[side]));
  const { shipping, refunds } = order;
  const partsOf = (part: 'shipping' | 'other') =>
    (refunds ?? []).flatMap(({ id, [part]: value }) =>
      value ? [{ id, key: '', value: minor(value) }] : [],
    );
  const ofShipping = partsOf('shipping');
  const gone = inBoth((side) => ofShipping.reduce((sum, { value }) => sum + value[side], 0n));
  return {
    id: BigInt(order.id),
    name: order.name,
    currencies,
    ...factsOf(order),
    shipping: shipping && {
      paid: minor(shipping.paid),
      left: shipping.left
        ? minor(shipping.left)
        : inBoth((side) => minor(shipping.paid)[side] - gone[side]),
      ...(refunds && { refunds: ofShipping }),
    },
    ...(refunds && { otherRefunds: partsOf('other') }),
    lines: order.lines.map((line) => lineOf(line, currencies)),
  };
}

function factsOf(order: AnsweredOrder): OrderFacts {
  const timeOf = (text: string | null | undefined) => (text ? new Date(text) : undefined);
  return present({
    email: order.email || undefined,
    postalCode: order.postal_code || undefined,
    shippingCountry: order.shipping_country?.toUpperCase(),
    orderedAt: timeOf(order.ordered_at),
    fulfilledAt: timeOf(order.fulfilled_at),
    deliveredAt: timeOf(order.delivered_at),
    cancelledAt: timeOf(order.cancelled_at),
  });
}

/** Leaves out what is undefined. */
export function present<T extends object>(values: T): T {
  // `fromEntries` loses the type of the keys.
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as T;
}

function lineOf(line: AnsweredLine, currencies: Both<string>): FoundLine {
  const { left, kind = 'product', quantity, shipped = quantity } = line;
  return {
    id: BigInt(line.line_item_id),
    // A submission of the order stores them, and its caller cannot correct them.
    title: printable(line.title),
    sku: printable(line.sku ?? ''),
    productId: line.product_id ? BigInt(line.product_id) : undefined,
    variantId: line.variant_id ? BigInt(line.variant_id) : undefined,
    ...present({
      variantTitle: line.variant_title ? printable(line.variant_title) : undefined,
      image: line.image ?? undefined,
      tags: line.tags ?? undefined,
      kind: line.kind,
      shipped: line.shipped,
      variants: line.variants?.map((variant) => variantOf(variant, currencies.shop)),
    }),
    quantity,
    returnable: kind === 'product' ? Math.min(line.returnable, shipped) : 0,
    paid: inBoth((side) => paidIn(line, { side, currency: currencies[side] })),
    left: {
      units: left?.units ?? line.returnable,
      totals: left && inBoth((side) => minorOf(left.total[side], currencies[side])),
    },
  };
}

function variantOf(
  { variant_id, product_id, sku = '', title, price, tax = '0' }: AnsweredVariant,
  currency: string,
): FoundVariant {
  const taxed = minorOf(tax, currency);
  return {
    variantId: BigInt(variant_id),
    ...(product_id && { productId: BigInt(product_id) }),
    sku: printable(sku),
    title: printable(title),
    price: minorOf(price, currency) - taxed,
    tax: taxed,
  };
}

/**
 * Returns what is wrong with an order: a line twice, a currency that does not exist, an amount with more decimals than
 * its currency, two amounts in one currency that differ, and totals that do not add up.
 */
export function problemsOfOrder(order: AnsweredOrder): string[] {
  const currencies = { shop: order.currency, presentment: order.presentment_currency };
  const ids = new Set(order.lines.map((line) => line.line_item_id));
  const twice = ids.size < order.lines.length ? ['two lines have the same line_item_id'] : [];
  const problems = (['shop', 'presentment'] as const).flatMap((side) => {
    const currency = currencies[side];
    if (decimalsOf(currency) === undefined) return [`${currency} is no currency of ISO 4217`];
    const { paid, left } = order.shipping ?? {};
    const refunds = order.refunds ?? [];
    const parts = refunds.flatMap(({ shipping, other }) => [shipping?.[side], other?.[side]]);
    const gone = refunds.map(({ shipping }) => shipping?.[side]);
    return [
      ...decimalsProblems(parts, currency),
      ...shippingProblems([paid?.[side], left?.[side], ...gone], currency),
      ...order.lines.flatMap((line) =>
        [
          ...problemsOfLine(line, { side, currency }),
          ...(side === 'shop' ? problemsOfVariants(line, currency) : []),
        ].map((problem) => `line ${line.line_item_id}: ${problem}`),
      ),
    ];
  });
  return [...twice, ...problems, ...differences(order)];
}

/** How far the clock of a platform may be ahead. Milliseconds. */
const SKEW_MS = 300_000;

/**
 * Returns what about an order cannot be right, although returns of it are still possible: times that contradict each
 * other, and shipped units.
 */
export function doubtsOf(order: AnsweredOrder, now = new Date()): string[] {
  const times = (['ordered_at', 'fulfilled_at', 'delivered_at', 'cancelled_at'] as const).flatMap(
    (name) => (order[name] ? [{ name, at: new Date(order[name]) }] : []),
  );
  const [first, ...later] = times;
  const goods = order.lines.filter(({ kind = 'product' }) => kind === 'product');
  const isShipped = goods.some(({ shipped, quantity }) => (shipped ?? quantity) > 0);
  const { ordered_at, fulfilled_at, delivered_at } = order;
  return [
    ...times
      .filter(({ at }) => at.getTime() > now.getTime() + SKEW_MS)
      .map(({ name }) => `${name} is in the future`),
    ...(ordered_at && first
      ? later.filter(({ at }) => at < first.at).map(({ name }) => `${name} is before ${first.name}`)
      : []),
    ...(fulfilled_at && delivered_at && new Date(delivered_at) < new Date(fulfilled_at)
      ? ['delivered_at is before fulfilled_at']
      : []),
    ...(goods.length > 0 && !isShipped && (fulfilled_at || delivered_at)
      ? [`${delivered_at ? 'delivered_at' : 'fulfilled_at'} is stated, and no unit is shipped`]
      : []),
    ...order.lines
      .filter(({ shipped, quantity }) => shipped !== undefined && shipped > quantity)
      .map(
        (line) =>
          `line ${line.line_item_id}: ${line.shipped} of ${line.quantity} units are shipped`,
      ),
  ];
}

function shippingProblems(
  [paid, left, ...refunds]: readonly (string | undefined)[],
  currency: string,
): string[] {
  const decimals = decimalsProblems([paid, left, ...refunds], currency);
  if (decimals.length > 0) return decimals;
  const minor = (amount = '0') => minorOf(amount, currency);
  if (minor(left) > minor(paid)) {
    return [`shipping.left ${left} is more than shipping.paid ${paid} ${currency}`];
  }
  const gone = refunds.reduce((sum, amount) => sum + minor(amount), 0n);
  if (gone <= minor(paid) - minor(left)) return [];
  return ['the shipping of refunds is more than shipping.paid - shipping.left'];
}

/** Returns the amounts that differ, although both are in one currency. */
function differences(order: AnsweredOrder): string[] {
  const { currency, presentment_currency, shipping, refunds = [], lines } = order;
  if (currency !== presentment_currency) return [];
  const amounts = [
    ...[shipping?.paid, shipping?.left],
    ...refunds.flatMap((refund) => [refund.shipping, refund.other]),
    ...lines.flatMap(({ paid, left, unit_price }) => [
      ...[paid?.total, paid?.gross, paid?.discount, paid?.tax],
      ...[left?.total, unit_price],
    ]),
  ];
  return amounts
    .filter((one) => one !== undefined)
    .filter(({ shop, presentment }) => !sameDecimal(shop, presentment))
    .map(({ shop, presentment }) => `${shop} and ${presentment} differ; both are in ${currency}`);
}

interface In {
  readonly side: Side;
  readonly currency: string;
}

function problemsOfLine(line: AnsweredLine, at: In): string[] {
  const { paid, left } = line;
  const amounts = [paid?.total, paid?.gross, paid?.discount, paid?.tax, left?.total];
  const decimals = decimalsProblems(
    amounts.map((amount) => amount?.[at.side]),
    at.currency,
  );
  return decimals.length > 0 ? decimals : contradictions(line, at);
}

function problemsOfVariants({ variants }: AnsweredLine, currency: string): string[] {
  return (variants ?? []).flatMap(({ variant_id, price, tax = '0' }) => {
    const decimals = decimalsProblems([price, tax], currency);
    const isTaxAbove = decimals.length === 0 && minorOf(tax, currency) > minorOf(price, currency);
    return [...decimals, ...(isTaxAbove ? ['tax is more than price'] : [])].map(
      (problem) => `variant ${variant_id}: ${problem}`,
    );
  });
}

/** Returns the amounts that have more decimals than their currency. Zeros at the end do not count. */
export function decimalsProblems(
  amounts: readonly (string | undefined)[],
  currency: string,
): string[] {
  const digits = decimalsOf(currency) ?? 0;
  return amounts
    .filter((amount) => /[1-9]/.test((amount?.split('.')[1] ?? '').slice(digits)))
    .map((amount) => `${amount} ${currency}; this currency has ${digits} decimals`);
}

/** Returns why the totals of a line do not add up. The price of one unit is rounded, so it may differ a little. */
function contradictions(line: AnsweredLine, at: In): string[] {
  const { paid, left, unit_price, quantity } = line;
  if (!paid) return [];
  const { side, currency } = at;
  const total = minorOf(paid.total[side], currency);
  const tax = minorOf(paid.tax?.[side] ?? '0', currency);
  const value = paidIn(line, at);
  const problems: string[] = [];
  if (tax > total) problems.push(`paid.tax is more than paid.total`);
  if (paid.gross && netOf(value) !== total) {
    problems.push(
      `paid.total ${paid.total[side]} ${currency} is not gross - discount + tax, nor gross - discount (for prices that include tax)`,
    );
  }
  const units = unit_price ? pricedUnits(unit_price[side], quantity, currency) - total : 0n;
  if (unit_price && (units < 0n ? -units : units) >= Math.max(1, quantity)) {
    problems.push(
      `unit_price ${unit_price[side]} ${currency} contradicts paid.total ${paid.total[side]} for ${quantity} units; it is what the shopper paid for one unit, with tax. Correct it or leave it out`,
    );
  }
  if (left && minorOf(left.total[side], currency) > total) {
    problems.push(`left.total is more than paid.total`);
  }
  return problems;
}

/** Returns what was paid for a line, without the tax in its price. */
function paidIn({ paid, unit_price, quantity }: AnsweredLine, { side, currency }: In): LineValue {
  const minor = (amount: Both<string> | undefined) => minorOf(amount?.[side] ?? '0', currency);
  if (!paid) {
    const price = pricedUnits(unit_price?.[side] ?? '0', quantity, currency);
    return { price, discount: 0n, tax: 0n };
  }
  const [total, discount, tax] = [minor(paid.total), minor(paid.discount), minor(paid.tax)];
  const gross = paid.gross ? minor(paid.gross) : total + discount - tax;
  const isTaxIncluded = paid.gross !== undefined && gross - discount === total;
  return { price: isTaxIncluded ? gross - tax : gross, discount, tax };
}

/** Multiplies the price of one unit, and rounds to minor units. A price may have more decimals than its currency. */
function pricedUnits(price: string, quantity: number, currency: string): bigint {
  const [units = '', fraction = ''] = price.split('.');
  const scale = 10n ** BigInt(decimalsOf(currency) ?? 0);
  const unit = 10n ** BigInt(fraction.length);
  return (2n * BigInt(units + fraction) * BigInt(quantity) * scale + unit) / (2n * unit);
}
