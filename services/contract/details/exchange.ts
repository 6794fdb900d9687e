import { z } from 'zod';
import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Exchange } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { CurrencyType } from '../vocabulary.ts';
import { selectable, shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';

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

const TEXTS = {
  exchange_id: 'Identifier of the exchange item',
  product_id: 'Identifier of the product at the commerce provider; null when unknown',
  variant_id: 'Identifier of the variant at the commerce provider; null when unknown',
  sku: 'Stock keeping unit; null when unknown',
  title: 'Title of product and variant; null when unknown',
  price: selectable('Gross price, before discount and tax'),
  discount: selectable('Discount'),
  tax: selectable('Tax'),
  total: selectable('What the item costs: `price - discount + tax`'),
  type: 'How it is exchanged: `variant` for another variant, `product` for another product',
  out_of_stock: 'Whether the item was out of stock when the return was submitted',
  out_of_stock_resolution: 'What is done when it is out of stock; null when it is in stock',
} as const;

export const exchange = z.object(shapeOf(EXCHANGE, TEXTS)).meta({ id: 'Exchange' });

export function exchangeView(source: ExchangeSource): ViewOf<typeof EXCHANGE> {
  return viewOf(EXCHANGE, source);
}

/** The presentment amount may be absent when both currencies are the same. */
function inBasis(amount: Amount | undefined, basis: CurrencyType): string | undefined {
  if (basis === 'shop') return amount?.shop;
  return amount?.presentment || amount?.shop;
}
