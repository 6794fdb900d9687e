import { columnOf } from '../fields/table.ts';
import type { Currencies } from '../store/line-message.ts';
import type { Both } from './amounts.ts';
import { formatAmount } from './money.ts';

/** Prefix of the columns in one currency: the shop's have none. */
export type Side = '' | 'presentment_';

/** The columns of sums, in both currencies. */
export function amountColumnsOf(names: readonly string[]): string[] {
  const columns = names.map(columnOf);
  return [...columns, ...columns.map((column) => `presentment_${column}`)];
}

/** Sums as columns, in both currencies. */
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
