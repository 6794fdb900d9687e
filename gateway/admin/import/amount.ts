import { decimalsOf } from '../../../services/platform/currencies.ts';
import { formatAmount, isTooLarge } from '../../../services/platform/money.ts';

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
