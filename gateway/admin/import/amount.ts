/** Maximum digits of a line amount before the decimal point; the service accepts no more. */
const MAX_DIGITS = 12;

/**
 * Multiplies a decimal unit price by a quantity, exactly.
 *
 * @returns the amount with the currency's decimals; undefined when the price is not a decimal number of zero or more,
 *   when the amount has more decimals than the currency, or when it is larger than the service accepts.
 */
export function lineAmount(
  unitPrice: string,
  quantity: number,
  decimals: number,
): string | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,6}))?$/.exec(unitPrice.trim());
  if (!match) return undefined;
  const fraction = match[2] ?? '';
  const scaled = BigInt(`${match[1]}${fraction}`) * BigInt(quantity) * 10n ** BigInt(decimals);
  const unit = 10n ** BigInt(fraction.length);
  const largest = 10n ** BigInt(MAX_DIGITS + decimals);
  if (scaled % unit !== 0n || scaled / unit > largest) return undefined;
  return formatMinor(scaled / unit, decimals);
}

function formatMinor(minor: bigint, decimals: number): string {
  if (decimals === 0) return minor.toString();
  const digits = minor.toString().padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}
