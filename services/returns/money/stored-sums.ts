import type { Currencies } from '../store/line-message.ts';
import type { ExchangeRow, LineRow, ReturnRow } from '../store/rows.ts';
import type { Both } from './amounts.ts';
import { minorOf } from './money.ts';
import type { ExchangeSums, LineSums, ReturnSums } from './totals.ts';

/** Prefix of the columns in one currency: the shop's have none. */
export type Side = '' | 'presentment_';

/** A stored line's sums in both currencies, in minor units. */
export function lineSumsOf(row: LineRow, currencies: Currencies): Both<LineSums> {
  const { shop, presentment } = currencies;
  return {
    shop: {
      price: minorOf(row.price, shop),
      discount: minorOf(row.discount, shop),
      tax: minorOf(row.tax, shop),
      refundItem: minorOf(row.refund_item, shop),
      refundTax: minorOf(row.refund_tax, shop),
      refundShipping: minorOf(row.refund_shipping, shop),
      refundShippingTax: minorOf(row.refund_shipping_tax, shop),
    },
    presentment: {
      price: minorOf(row.presentment_price, presentment),
      discount: minorOf(row.presentment_discount, presentment),
      tax: minorOf(row.presentment_tax, presentment),
      refundItem: minorOf(row.presentment_refund_item, presentment),
      refundTax: minorOf(row.presentment_refund_tax, presentment),
      refundShipping: minorOf(row.presentment_refund_shipping, presentment),
      refundShippingTax: minorOf(row.presentment_refund_shipping_tax, presentment),
    },
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
