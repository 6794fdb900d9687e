import { z } from 'zod';
import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import type { Exchange } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { CurrencyType } from '../vocabulary.ts';
import { inShopUnlessSelected, shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';

/**
 * The values that the fields of an exchange item are read from. Amounts are in the requested currency. `none` is zero
 * as text.
 */
interface ExchangeSource {
  readonly exchange: Exchange;
  readonly basis: CurrencyType;
  readonly none: string;
}

const field = viewFields<ExchangeSource>();
const amountOf = (meaning: string, pick: (exchange: Exchange) => Amount | undefined) =>
  field.amount(meaning, ({ exchange, basis }) => inBasis(pick(exchange), basis));
const EXCHANGE = {
  exchange_id: field.other('Identifier of the exchange item', z.int(), ({ exchange }) =>
    Number(exchange.exchangeId),
  ),
  product_id: field.id(
    'Identifier of the product at the commerce provider; null when unknown',
    ({ exchange }) => exchange.productId,
  ),
  variant_id: field.id(
    'Identifier of the variant at the commerce provider; null when unknown',
    ({ exchange }) => exchange.variantId,
  ),
  sku: field.text('Stock keeping unit; null when unknown', ({ exchange }) => exchange.sku),
  title: field.text(
    'Title of product and variant; null when unknown',
    ({ exchange }) => exchange.title,
  ),
  price: amountOf(
    inShopUnlessSelected('Gross price, before discount and tax'),
    (exchange) => exchange.price,
  ),
  discount: amountOf(inShopUnlessSelected('Discount'), (exchange) => exchange.discount),
  tax: amountOf(inShopUnlessSelected('Tax'), (exchange) => exchange.tax),
  total: amountOf(
    inShopUnlessSelected('What the item costs: `price - discount + tax`'),
    (exchange) => exchange.total,
  ),
  type: field.text(
    'How it is exchanged: `variant` for another variant, `product` for another product',
    ({ exchange }) => exchange.type,
  ),
  out_of_stock: field.other(
    'Whether the item was out of stock when the return was submitted',
    z.boolean(),
    ({ exchange }) => exchange.outOfStock,
  ),
  out_of_stock_resolution: field.text(
    'What is done when it is out of stock; null when it is in stock',
    ({ exchange }) => exchange.outOfStockResolution,
  ),
};

export const exchange = z.object(shapeOf(EXCHANGE)).meta({ id: 'Exchange' });

export function exchangeView(source: ExchangeSource): ViewOf<typeof EXCHANGE> {
  return viewOf(EXCHANGE, source);
}

/** The amount in one of the two currencies. The presentment amount may be absent when both currencies are the same. */
function inBasis(amount: Amount | undefined, basis: CurrencyType): string | undefined {
  if (basis === 'shop') return amount?.shop;
  return amount?.presentment || amount?.shop;
}
