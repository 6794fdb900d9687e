import { data as currencies } from 'currency-codes';
import { invalidField } from '../../platform/errors.ts';

/** The maximum amount, in whole units of its currency. */
const MAX_UNITS = 1_000_000_000_000n;
const DECIMALS: ReadonlyMap<string, number> = new Map(
  currencies.map((currency) => [currency.code, currency.digits]),
);
/** A JavaScript number holds this many digits exactly. */
const EXACT_DIGITS = 15;
const DECIMAL = /^(\d{1,13})(?:\.(\d{1,8}))?$/;

/**
 * How many decimals ISO 4217 gives a currency; undefined when there is no such currency.
 */
export function decimalsOf(currency: string): number | undefined {
  return DECIMALS.get(currency);
}

/**
 * The decimals of a currency that was checked before.
 *
 * @throws RangeError for an unknown currency: a programming error.
 */
function digitsOf(currency: string): number {
  const digits = decimalsOf(currency);
  if (digits === undefined) throw new RangeError('unknown currency');
  return digits;
}

/**
 * Parses a decimal string of a request as minor units of `currency`.
 *
 * @param field the name of the value in the error.
 * @throws DomainError INVALID_ARGUMENT for a text that is not a decimal number, more decimals than the currency has, a
 *   negative amount, and an amount above 10^12 units.
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

/** Whether an amount is above 10^12 units, the maximum of submitted and derived amounts. */
export function isTooLarge(minor: bigint, currency: string): boolean {
  return minor > MAX_UNITS * 10n ** BigInt(digitsOf(currency));
}

/** Writes minor units as a decimal string with exactly the currency's decimals; may be negative. */
export function formatAmount(minor: bigint, currency: string): string {
  const digits = digitsOf(currency);
  const sign = minor < 0n ? '-' : '';
  const text = (minor < 0n ? -minor : minor).toString().padStart(digits + 1, '0');
  if (digits === 0) return sign + text;
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/**
 * Parses a stored amount as minor units. Trailing zeros are allowed.
 *
 * @throws RangeError when it has more decimals than the currency: the stored data is invalid.
 */
export function minorOf(stored: string, currency: string): bigint {
  const digits = digitsOf(currency);
  const point = stored.length - digits - 1;
  // The usual form. A whole return has hundreds of amounts, so this path must be fast.
  if (digits > 0 && stored[point] === '.' && stored.length < EXACT_DIGITS) {
    return BigInt(Number(stored.slice(0, point) + stored.slice(point + 1)));
  }
  const [units = '0', fraction = ''] = stored.split('.');
  if (/[^0]/.test(fraction.slice(digits))) throw new RangeError('an amount has too many decimals');
  return BigInt(units + fraction.slice(0, digits).padEnd(digits, '0'));
}
