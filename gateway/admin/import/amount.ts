import { decimalsOf } from '../../../services/platform/currencies.ts';
import { formatAmount, isTooLarge } from '../../../services/platform/money.ts';

/**
 * Writes a number with this decimal sign as digits with a point: `1.234,50` and `1 234,50` as `1234.50`. Thousands are
 * groups of three. A text that is no such number stays as it is, and so does `1,234` without decimals when the decimal
 * sign is the point, because it may be a decimal comma.
 */
export function plainNumber(text: string, decimal: '.' | ','): string {
  const groups = decimal === ',' ? GROUPED_BEFORE_COMMA : GROUPED_BEFORE_POINT;
  const trimmed = text.trim();
  const [, sign = '', units = '', fraction = ''] = groups.exec(trimmed) ?? [];
  if (units === '' || (decimal === '.' && units.includes(',') && fraction === '')) return trimmed;
  return `${sign}${units.replaceAll(/\D/g, '')}${fraction.replace(',', '.')}`;
}

/** Whether a text is a number only when the point is the decimal sign. */
export function hasOtherDecimal(text: string, decimal: '.' | ','): boolean {
  const trimmed = text.trim();
  return (
    decimal === ',' && !GROUPED_BEFORE_COMMA.test(trimmed) && GROUPED_BEFORE_POINT.test(trimmed)
  );
}

const GROUPED_BEFORE_COMMA = /^(-?)(\d+|\d{1,3}(?:[.\u0020\u00a0\u202f'\u2019]\d{3})+)(,\d+)?$/;
const GROUPED_BEFORE_POINT = /^(-?)(\d+|\d{1,3}(?:[,\u0020\u00a0\u202f'\u2019]\d{3})+)(\.\d+)?$/;

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
  const match = /^(\d{1,12})(?:\.(\d{1,6}))?$/.exec(unitPrice.trim());
  const decimals = decimalsOf(currency);
  if (!match || decimals === undefined) return undefined;
  const fraction = match[2] ?? '';
  const scaled = BigInt(`${match[1]}${fraction}`) * BigInt(quantity) * 10n ** BigInt(decimals);
  const unit = 10n ** BigInt(fraction.length);
  const minor = scaled / unit;
  if (scaled % unit !== 0n || isTooLarge(minor, currency)) return undefined;
  return formatAmount(minor, currency);
}
