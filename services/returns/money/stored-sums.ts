import type { ExchangeRow, LineRow, ReturnRow } from '../store/rows.ts';
import { minorOf } from './money.ts';
import type { ExchangeSums, LineSums, ReturnSums } from './totals.ts';

/** Prefix of the columns in one currency: the shop's have none. */
export type Side = '' | 'presentment_';

/** A stored line's sums on one side, in minor units. */
export function lineSumsOf(row: LineRow, side: Side, currency: string): LineSums {
  return {
    price: minorOf(row[`${side}price`], currency),
    discount: minorOf(row[`${side}discount`], currency),
    tax: minorOf(row[`${side}tax`], currency),
    refundItem: minorOf(row[`${side}refund_item`], currency),
    refundTax: minorOf(row[`${side}refund_tax`], currency),
    refundShipping: minorOf(row[`${side}refund_shipping`], currency),
    refundShippingTax: minorOf(row[`${side}refund_shipping_tax`], currency),
  };
}

/** A stored exchange item's sums on one side, in minor units. */
export function exchangeSumsOf(row: ExchangeRow, side: Side, currency: string): ExchangeSums {
  return {
    price: minorOf(row[`${side}price`], currency),
    discount: minorOf(row[`${side}discount`], currency),
    tax: minorOf(row[`${side}tax`], currency),
  };
}

/** A stored return's own sums on one side, in minor units. */
export function returnSumsOf(row: ReturnRow, side: Side, currency: string): ReturnSums {
  return {
    shipping: minorOf(row[`${side}shipping`], currency),
    shippingTax: minorOf(row[`${side}shipping_tax`], currency),
    creditShipping: minorOf(row[`${side}credit_shipping`], currency),
    returnCredit: minorOf(row[`${side}return_credit`], currency),
    handlingFee: minorOf(row[`${side}handling_fee`], currency),
    refund: minorOf(row[`${side}refund`], currency),
  };
}
