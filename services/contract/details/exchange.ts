import { z } from 'zod';
import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Exchange } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { CurrencyType } from '../vocabulary.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';

/** An exchange item, with its amounts in the requested currency. `none` is the text of zero. */
interface ExchangeSource {
  readonly exchange: Exchange;
  readonly basis: CurrencyType;
  readonly none: string;
}

const field = viewFields<ExchangeSource>();
const amountOf = (pick: (exchange: Exchange) => Amount | undefined) =>
  field.amount(({ exchange, basis }) => inBasis(pick(exchange), basis));
const EXCHANGE = {
  exchange_id: field.other(z.int(), ({ exchange }) => Number(exchange.exchangeId)),
  product_id: field.id(({ exchange }) => exchange.productId),
  variant_id: field.id(({ exchange }) => exchange.variantId),
  sku: field.text(({ exchange }) => exchange.sku),
  title: field.text(({ exchange }) => exchange.title),
  price: amountOf((exchange) => exchange.price),
  discount: amountOf((exchange) => exchange.discount),
  tax: amountOf((exchange) => exchange.tax),
  total: amountOf((exchange) => exchange.total),
  type: field.text(({ exchange }) => exchange.type),
  out_of_stock: field.other(z.boolean(), ({ exchange }) => exchange.outOfStock),
  out_of_stock_resolution: field.text(({ exchange }) => exchange.outOfStockResolution),
};

export const exchange = z.object(shapeOf(EXCHANGE)).meta({ id: 'Exchange' });

export function exchangeView(source: ExchangeSource): ViewOf<typeof EXCHANGE> {
  return viewOf(EXCHANGE, source);
}

/** The presentment amount may be absent when both currencies are the same. */
function inBasis(amount: Amount | undefined, basis: CurrencyType): string | undefined {
  if (basis === 'shop') return amount?.shop;
  return amount?.presentment || amount?.shop;
}
