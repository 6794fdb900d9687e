import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import type { Currencies } from '../store/line-message.ts';
import { parseAmount } from './money.ts';

/** One value for each currency of a return. */
export interface Both<T> {
  readonly shop: T;
  readonly presentment: T;
}

const ZERO: Both<bigint> = { shop: 0n, presentment: 0n };

/**
 * Reads one submitted sum in both currencies, as minor units.
 *
 * The presentment sum may be left out where it follows: both currencies are the same, or the sum is
 * zero. It is never converted.
 *
 * @throws DomainError INVALID_ARGUMENT naming the field at fault.
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
    throw invalidField(`${field}.presentment`, 'is required where the currencies differ');
  }
  const presentment = parseAmount(
    `${field}.presentment`,
    amount.presentment,
    currencies.presentment,
  );
  if (same && shop !== presentment) {
    throw invalidField(`${field}.presentment`, 'must equal the sum in the shop currency');
  }
  return { shop, presentment };
}

/** {@link amountOf} for a sum that must be given. */
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

/** Turns named pairs into a pair of named values. */
export function bySide<K extends string>(
  pairs: Readonly<Record<K, Both<bigint>>>,
): Both<Readonly<Record<K, bigint>>> {
  const pick = (side: keyof Both<bigint>) => {
    const values: Partial<Record<K, bigint>> = {};
    for (const key in pairs) values[key] = pairs[key][side];
    // Every key of K was filled by the loop.
    return values as Record<K, bigint>;
  };
  return { shop: pick('shop'), presentment: pick('presentment') };
}
