import type {
  LineAmounts,
  LineItem,
  Return,
  Totals,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type Both, type Currencies, minorOf, sumsOf } from './money.ts';
import {
  EXCHANGE_AMOUNTS,
  type ExchangeSums,
  LINE_AMOUNTS,
  type LineSums,
  type ReturnSums,
} from './totals.ts';

// The amounts of a loaded return in minor units, from which an edit starts.

/** The amounts of a line item in both currencies. */
export function lineSumsIn(line: LineItem, currencies: Currencies): Both<LineSums> {
  return {
    shop: lineSide(line.amounts, currencies.shop),
    presentment: lineSide(line.presentmentAmounts, currencies.presentment),
  };
}

function lineSide(amounts: LineAmounts | undefined, currency: string): LineSums {
  return sumsOf(LINE_AMOUNTS, (name) => minorOf(amounts?.[name] ?? '0', currency));
}

/** The amounts of the exchange items in both currencies. */
export function exchangeSumsIn(current: Return): Both<ExchangeSums>[] {
  return current.exchanges.map((exchange) => {
    const side = (pick: 'shop' | 'presentment', currency: string): ExchangeSums =>
      sumsOf(EXCHANGE_AMOUNTS, (name) => minorOf(exchange[name]?.[pick] ?? '0', currency));
    return {
      shop: side('shop', current.currency),
      presentment: side('presentment', current.presentmentCurrency),
    };
  });
}

/** The amounts of the whole return in both currencies. */
export function returnSumsIn(current: Return): Both<ReturnSums> {
  return {
    shop: returnSide(current.totals, current.currency),
    presentment: returnSide(current.presentmentTotals, current.presentmentCurrency),
  };
}

function returnSide(totals: Totals | undefined, currency: string): ReturnSums {
  const minor = (text = '0') => minorOf(text, currency);
  return {
    creditShipping: minor(totals?.creditShippingTotal),
    returnCredit: minor(totals?.returnCreditTotal),
    handlingFee: minor(totals?.handlingFee),
    refund: minor(totals?.refund),
  };
}
