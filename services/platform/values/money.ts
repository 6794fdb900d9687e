import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import { decimalsOf } from './currencies.ts';
import { invalidField } from './errors.ts';
import { snakeCase } from './text.ts';

/** Maximum amount, in whole units of its currency. */
const MAX_UNITS = 1_000_000_000_000n;
/** Number of digits that a JavaScript number always represents exactly. */
const EXACT_DIGITS = 15;
const DECIMAL = /^(\d{1,13})(?:\.(\d{1,8}))?$/;

/**
 * Returns the number of decimals of a currency that was checked before.
 *
 * @throws RangeError for an unknown currency, which is a bug.
 */
function digitsOf(currency: string): number {
  const digits = decimalsOf(currency);
  if (digits === undefined) throw new RangeError('unknown currency');
  return digits;
}

/**
 * Parses a decimal text in a request. Returns the amount in minor units of `currency`.
 *
 * @param field the name of the value in the error.
 * @throws DomainError INVALID_ARGUMENT for a text that is not a decimal number, for more decimals than the currency
 *   has, for a negative amount, and for an amount above 10^12 units.
 */
export function parseAmount(field: string, text: string, currency: string): bigint {
  const digits = digitsOf(currency);
  if (text.startsWith('-')) throw invalidField(field, 'must not be negative');
  const [, units, fraction = ''] = DECIMAL.exec(text) ?? [];
  if (units === undefined) throw invalidField(field, 'must be a decimal number such as 12.50');
  if (fraction.length > digits) {
    throw invalidField(field, `has more than the ${digits} decimals of ${currency}`);
  }
  const minor = BigInt(units + fraction.padEnd(digits, '0'));
  if (isTooLarge(minor, currency)) throw invalidField(field, 'is too large');
  return minor;
}

/** Whether an amount is above 10^12 units, which is the maximum for submitted and computed amounts. */
export function isTooLarge(minor: bigint, currency: string): boolean {
  return minor > MAX_UNITS * 10n ** BigInt(digitsOf(currency));
}

/** Writes minor units as a decimal text with all decimals of the currency. The amount may be negative. */
export function formatAmount(minor: bigint, currency: string): string {
  return decimalText(minor, digitsOf(currency));
}

/** Writes an amount as a decimal text with so many decimals, of which it is a whole number. */
export function decimalText(minor: bigint, digits: number): string {
  const sign = minor < 0n ? '-' : '';
  const text = (minor < 0n ? -minor : minor).toString().padStart(digits + 1, '0');
  if (digits === 0) return sign + text;
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/**
 * Parses a stored amount. Returns minor units. Trailing zeros are allowed.
 *
 * @throws RangeError when the amount has more decimals than its currency, because then the stored data is invalid.
 */
export function minorOf(stored: string, currency: string): bigint {
  const digits = digitsOf(currency);
  const point = stored.length - digits - 1;
  // The usual form. This path must be fast, because a whole return has hundreds of amounts.
  if (digits > 0 && stored[point] === '.' && stored.length < EXACT_DIGITS) {
    return BigInt(Number(stored.slice(0, point) + stored.slice(point + 1)));
  }
  const [units = '0', fraction = ''] = stored.split('.');
  if (/[^0]/.test(fraction.slice(digits))) throw new RangeError('an amount has too many decimals');
  return BigInt(units + fraction.slice(0, digits).padEnd(digits, '0'));
}

/** Whether two decimal texts are the same number. Zeros at the beginning and the end do not matter. */
export function sameDecimal(one: string, other: string): boolean {
  return isDecimal(one) && isDecimal(other) && plain(one) === plain(other);
}

const isDecimal = (text: string): boolean => /^\d+(\.\d+)?$/.test(text);

function plain(text: string): string {
  const [units = '', fraction = ''] = text.split('.');
  return `${units.replace(/^0+(?=\d)/, '')}.${fraction.replace(/0+$/, '')}`;
}

/** One value for each of the two currencies of a return. */
export interface Both<T> {
  readonly shop: T;
  readonly presentment: T;
}

/** Returns a value for each of the two currencies. */
export function inBoth<T>(read: (side: keyof Both<T>) => T): Both<T> {
  return { shop: read('shop'), presentment: read('presentment') };
}

/** The two currencies of a return (ISO 4217). */
export type Currencies = Both<string>;

const ZERO: Both<bigint> = { shop: 0n, presentment: 0n };

/**
 * Reads a submitted amount in both currencies. Returns minor units.
 *
 * The presentment amount may be absent when both currencies are the same, or when the amount is zero. Amounts are never
 * converted.
 *
 * @throws DomainError INVALID_ARGUMENT with the name of the invalid field.
 */
export function amountOf(
  field: string,
  amount: Amount | undefined,
  currencies: Currencies,
): Both<bigint> {
  if (!amount || (amount.shop === '' && amount.presentment === '')) return ZERO;
  if (amount.shop === '') throw invalidField(`${field}.shop`, 'is required');
  const shop = parseAmount(`${field}.shop`, amount.shop, currencies.shop);
  const same = currencies.shop === currencies.presentment;
  if (amount.presentment === '') {
    if (same || shop === 0n) return { shop, presentment: shop };
    throw invalidField(`${field}.presentment`, 'is required, because the currencies differ');
  }
  const presentment = parseAmount(
    `${field}.presentment`,
    amount.presentment,
    currencies.presentment,
  );
  if (same && shop !== presentment) {
    throw invalidField(`${field}.presentment`, 'must equal the amount in the shop currency');
  }
  return { shop, presentment };
}

/** Does the same as {@link amountOf} for a required amount. */
export function requiredAmountOf(
  field: string,
  amount: Amount | undefined,
  currencies: Currencies,
): Both<bigint> {
  if (!amount || (amount.shop === '' && amount.presentment === '')) {
    throw invalidField(field, 'is required');
  }
  return amountOf(field, amount, currencies);
}

/** Returns an amount in both currencies for each name. */
export function bothOf<K extends string>(
  names: readonly K[],
  read: (name: K) => Both<bigint>,
): Both<Readonly<Record<K, bigint>>> {
  const pairs = names.map((name) => [name, read(name)] as const);
  const side = (of: keyof Both<bigint>) => byName(pairs.map(([name, pair]) => [name, pair[of]]));
  return { shop: side('shop'), presentment: side('presentment') };
}

/** Returns an amount in one currency for each name. */
export function sumsOf<K extends string>(
  names: readonly K[],
  read: (name: K) => bigint,
): Readonly<Record<K, bigint>> {
  return byName(names.map((name) => [name, read(name)]));
}

function byName<K extends string>(entries: readonly (readonly [K, bigint])[]): Record<K, bigint> {
  // `fromEntries` loses the type of the keys.
  return Object.fromEntries(entries) as Record<K, bigint>;
}

/** The prefix of the columns of one currency. It is empty for the shop's currency. */
export type Side = '' | 'presentment_';

/** The names of the columns for these amounts, in both currencies. */
export function amountColumnsOf(names: readonly string[]): string[] {
  const columns = names.map(snakeCase);
  return [...columns, ...columns.map((column) => `presentment_${column}`)];
}

/** The values of the columns for these amounts, in both currencies. */
export function amountColumns<K extends string>(
  names: readonly K[],
  sums: Both<Readonly<Record<K, bigint>>>,
  currencies: Currencies,
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const name of names) {
    const column = snakeCase(name);
    values[column] = formatAmount(sums.shop[name], currencies.shop);
    values[`presentment_${column}`] = formatAmount(sums.presentment[name], currencies.presentment);
  }
  return values;
}
