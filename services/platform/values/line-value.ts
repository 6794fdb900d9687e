/**
 * The value of goods, such as what was paid for units of an order line, in minor units of one currency. The price is
 * without tax, also when the shop shows prices with tax.
 */
export interface LineValue {
  readonly price: bigint;
  readonly discount: bigint;
  readonly tax: bigint;
}

/** Returns the net value: price minus discount plus tax. */
export function netOf({ price, discount, tax }: LineValue): bigint {
  return price - discount + tax;
}

/** A number of units of an order line, and their value. */
export interface Units<T> {
  readonly units: number;
  readonly value: T;
}

/** Returns the value of `net`, of which `tax` is tax. No part is negative, and the discount is what makes it add up. */
function valueWith(net: bigint, { price, tax }: Pick<LineValue, 'price' | 'tax'>): LineValue {
  const total = net > 0n ? net : 0n;
  const taxed = [0n, tax, total].sort((a, b) => (a < b ? -1 : 1))[1] ?? 0n;
  const gross = price > total - taxed ? price : total - taxed;
  return { price: gross, discount: gross + taxed - total, tax: taxed };
}

export const ZERO_VALUE: LineValue = { price: 0n, discount: 0n, tax: 0n };

export function plus(one: LineValue, other: LineValue): LineValue {
  return {
    price: one.price + other.price,
    discount: one.discount + other.discount,
    tax: one.tax + other.tax,
  };
}

/** Subtracts a value. The result is at least zero. */
export function minus(from: LineValue, value: LineValue): LineValue {
  const rest = { price: from.price - value.price, tax: from.tax - value.tax };
  return valueWith(netOf(from) - netOf(value), rest);
}

/**
 * Returns the share of some units in the value of all units, rounded down. The share of all units is the whole value.
 * So the last unit gets the remainder, and the shares add up to the value whatever the split.
 */
export function shareOf({ units, value }: Units<LineValue>, wanted: number): LineValue {
  const share = (minor: bigint) =>
    wanted >= units ? minor : (minor * BigInt(wanted)) / BigInt(units);
  return valueWith(share(netOf(value)), { price: share(value.price), tax: share(value.tax) });
}
