import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import { invalidField } from '../../platform/errors.ts';
import { columnOf } from '../fields/field.ts';
import { formatAmount, parseAmount } from './money.ts';

/** One value for each currency of a return. */
export interface Both<T> {
  readonly shop: T;
  readonly presentment: T;
}

/** Both currencies of a return, ISO 4217. */
export type Currencies = Both<string>;

const ZERO: Both<bigint> = { shop: 0n, presentment: 0n };

/**
 * Reads one submitted amount in both currencies, as minor units.
 *
 * The presentment amount may be absent when both currencies are the same, or the amount is zero. It is never converted.
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

/** {@link amountOf} for a required amount. */
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

/** Amounts in both currencies, by name. */
export function bothOf<K extends string>(
  names: readonly K[],
  read: (name: K) => Both<bigint>,
): Both<Readonly<Record<K, bigint>>> {
  const pairs = names.map((name) => [name, read(name)] as const);
  const side = (of: keyof Both<bigint>) => byName(pairs.map(([name, pair]) => [name, pair[of]]));
  return { shop: side('shop'), presentment: side('presentment') };
}

/** Amounts in one currency, by name. */
export function sumsOf<K extends string>(
  names: readonly K[],
  read: (name: K) => bigint,
): Readonly<Record<K, bigint>> {
  return byName(names.map((name) => [name, read(name)]));
}

function byName<K extends string>(entries: readonly (readonly [K, bigint])[]): Record<K, bigint> {
  // Object.fromEntries widens the keys of a closed record.
  return Object.fromEntries(entries) as Record<K, bigint>;
}

/** The prefix of the columns in one currency: empty for the shop's. */
export type Side = '' | 'presentment_';

/** The columns of these amounts, in both currencies. */
export function amountColumnsOf(names: readonly string[]): string[] {
  const columns = names.map(columnOf);
  return [...columns, ...columns.map((column) => `presentment_${column}`)];
}

/** Amounts as columns, in both currencies. */
export function amountColumns<K extends string>(
  names: readonly K[],
  sums: Both<Readonly<Record<K, bigint>>>,
  currencies: Currencies,
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const name of names) {
    const column = columnOf(name);
    values[column] = formatAmount(sums.shop[name], currencies.shop);
    values[`presentment_${column}`] = formatAmount(sums.presentment[name], currencies.presentment);
  }
  return values;
}
