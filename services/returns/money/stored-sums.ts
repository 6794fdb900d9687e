import { EXCHANGE_AMOUNTS, RETURN_AMOUNTS } from '../fields/return.ts';
import { columnOf } from '../fields/table.ts';
import type { ExchangeRow, ReturnRow } from '../store/rows.ts';
import type { Side } from './amount-columns.ts';
import { sumsOf } from './amounts.ts';
import { minorOf } from './money.ts';
import type { ExchangeSums, ReturnSums } from './totals.ts';

/** A stored exchange item's sums on one side, in minor units. */
export function exchangeSumsOf(row: ExchangeRow, side: Side, currency: string): ExchangeSums {
  return sumsOf(EXCHANGE_AMOUNTS, (name) => minorOf(row[`${side}${name}`], currency));
}

/** A stored return's own sums on one side, in minor units. */
export function returnSumsOf(row: ReturnRow, side: Side, currency: string): ReturnSums {
  return sumsOf(RETURN_AMOUNTS, (name) =>
    minorOf(String(row[`${side}${columnOf(name)}`]), currency),
  );
}
