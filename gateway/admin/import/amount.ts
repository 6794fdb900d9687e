import { decimalsOf } from '../../../services/platform/values/currencies.ts';
import { formatAmount, isTooLarge } from '../../../services/platform/values/money.ts';

/** The decimal sign of a file. Undefined when nobody stated it; then it is the point. */
type Decimal = '.' | ',' | undefined;

/**
 * Writes a number with this decimal sign as digits with a point: `1.234,50` and `1 234,50` as `1234.50`, `(5)`, `5-` and
 * `\u22125` as `-5`. Thousands are groups of three. A text that is no such number stays as it is. So does `1,234` when
 * nobody stated the decimal sign, because its comma may be the decimal sign.
 */
export function plainNumber(text: string, decimal: Decimal): string {
  const number = withMinus(text);
  const found = formOf(decimal).exec(number);
  if (!found || (decimal === undefined && mayHaveOtherDecimal(number))) return number;
  const [, sign = '', units = '', fraction = ''] = found;
  return `${sign}${units.replaceAll(/\D/g, '') || '0'}${fraction.replace(',', '.')}`;
}

/**
 * The decimal signs of which a map of columns must state one: the other one, if a text is a number only with it; each, if
 * `1.250` may be 1250, because programs that separate cells by semicolons usually write decimal commas.
 */
export function neededSigns(
  text: string,
  { decimal, separator }: { readonly decimal?: Decimal; readonly separator: string },
): readonly string[] {
  const number = withMinus(text);
  const other = decimal === ',' ? '.' : ',';
  if (!formOf(decimal).test(number) && formOf(other).test(number)) return [other];
  const isUnclear = decimal === undefined && separator === ';' && POINTS_OF_THOUSANDS.test(number);
  return isUnclear ? [',', '.'] : [];
}

const POINTS_OF_THOUSANDS = /^-?[1-9]\d{0,2}(\.\d{3})+$/;

/** Whether the comma of a text is the sign of thousands or the decimal sign. */
export const mayHaveOtherDecimal = (number: string): boolean => /^-?\d{1,3}(,\d{3})+$/.test(number);

const BEFORE_COMMA = /^(-?)(\d+|\d{1,3}(?:[.\u0020\u00a0\u202f'\u2019]\d{3})+|(?=,))(,\d+)?$/;
const BEFORE_POINT = /^(-?)(\d+|\d{1,3}(?:[,\u0020\u00a0\u202f'\u2019]\d{3})+|(?=\.))(\.\d+)?$/;

const formOf = (decimal: Decimal) => (decimal === ',' ? BEFORE_COMMA : BEFORE_POINT);

/** Writes the minus of accounts (`(5)`, `5-`), and the signs of Unicode, as a hyphen at the beginning. */
function withMinus(text: string): string {
  const signed = text.trim().replace(/^\((.+)\)$|^(.+)-$/, '-$1$2');
  return signed.replace(/^[\u2212\u2013]/, '-');
}

/**
 * Multiplies a decimal unit price by a quantity, exactly.
 *
 * @returns the amount with the currency's decimals; undefined when the price is not a decimal number of zero or more,
 *   when the amount has more decimals than the currency, or when it is larger than the service accepts.
 */
export function lineAmount(
  unitPrice: string,
  quantity: number,
  currency: string,
): string | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,6})0*)?$/.exec(unitPrice.trim());
  const decimals = decimalsOf(currency);
  if (!match || decimals === undefined) return undefined;
  const fraction = match[2] ?? '';
  const scaled = BigInt(`${match[1]}${fraction}`) * BigInt(quantity) * 10n ** BigInt(decimals);
  const unit = 10n ** BigInt(fraction.length);
  const minor = scaled / unit;
  if (scaled % unit !== 0n || isTooLarge(minor, currency)) return undefined;
  return formatAmount(minor, currency);
}
