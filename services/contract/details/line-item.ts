import { z } from 'zod';
import type { Amount } from '../../../proto/gen/rms/common/v1/money_pb.ts';
import {
  type CustomerUpload,
  CustomerUpload_Kind,
  type Exchange,
  type LineAmounts,
  type LineItem,
  LineOutcomeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { means, nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull, word } from '../views/values.ts';
import { type CurrencyType, LINE_OUTCOMES } from '../vocabulary.ts';
import { inShopUnlessSelected, shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { condition, conditionView, dispositionView, lineDisposition } from './inspection.ts';

const uploadId = () => means(z.int(), 'Identifier of the upload');
const uploadLink = {
  url: means(z.string(), 'Link to the file'),
  created_at: means(time(), 'When it was added'),
};

/** The texts and files that the shopper added to a line item. */
const uploads = z
  .object({
    images: means(
      z.array(
        z.object({
          id: uploadId(),
          source: means(nullableText(), 'Who added it, such as `customer`; null when unknown'),
          ...uploadLink,
        }),
      ),
      'Images, oldest first',
    ),
    media: means(
      z.array(
        z.object({
          id: uploadId(),
          type: means(nullableText(), 'Kind of media, such as `video`; null when unknown'),
          ...uploadLink,
        }),
      ),
      'Videos and other media, oldest first',
    ),
  })
  .meta({ id: 'CustomerUploads' });

/** The uploads of a line item, by kind. */
function uploadsView(all: readonly CustomerUpload[]): z.infer<typeof uploads> {
  const of = (kind: CustomerUpload_Kind) => all.filter((upload) => upload.kind === kind);
  return {
    images: of(CustomerUpload_Kind.IMAGE).map(({ id, source, url, createdAt }) => ({
      id: Number(id),
      source: textOrNull(source),
      url,
      created_at: iso(createdAt),
    })),
    media: of(CustomerUpload_Kind.MEDIA).map(({ id, mediaType, url, createdAt }) => ({
      id: Number(id),
      type: textOrNull(mediaType),
      url,
      created_at: iso(createdAt),
    })),
  };
}

/** The line items of return details (interface: Return details, Line item fields), newest shape. */

/**
 * The values that the fields of a line item are read from. Amounts are in the requested currency. `none` is zero as
 * text.
 */
interface LineSource {
  readonly line: LineItem;
  readonly amounts: LineAmounts | undefined;
  readonly none: string;
}

const known = (text: string) => `${text}; null when unknown`;
const atProvider = (text: string) => known(`${text} at the commerce provider`);

const field = viewFields<LineSource>();
/** An amount that is for the whole quantity. */
const ofLine = (meaning: string, name: Exclude<keyof LineAmounts, `$${string}`>) =>
  field.amount(
    inShopUnlessSelected(`${meaning}, for the whole quantity`),
    ({ amounts }) => amounts?.[name],
  );
const LINE_ITEM = {
  line_item_id: field.other(
    'Identifier of the line item, by which it is graded and assessed',
    z.int(),
    ({ line }) => Number(line.lineItemId),
  ),
  provider_line_item_id: field.id(
    atProvider('Identifier of the order line'),
    ({ line }) => line.providerLineItemId,
  ),
  provider_line_item_external_id: field.text(
    atProvider('Second identifier of the order line, as text,'),
    ({ line }) => line.providerLineItemExternalId,
  ),
  product_id: field.id(atProvider('Identifier of the product'), ({ line }) => line.productId),
  variant_id: field.id(atProvider('Identifier of the variant'), ({ line }) => line.variantId),
  sku: field.text(known('Stock keeping unit'), ({ line }) => line.sku),
  line_item_title: field.text(
    known('Title of the product on the order'),
    ({ line }) => line.lineItemTitle,
  ),
  variant_title: field.text(
    known('Title of the variant, such as its size'),
    ({ line }) => line.variantTitle,
  ),
  title: field.text(known('Title of product and variant together'), ({ line }) => line.title),
  image: field.text(known('Link to an image of the product'), ({ line }) => line.image),
  price: ofLine('Gross price, before discount and tax', 'price'),
  discount: ofLine('Discount', 'discount'),
  tax: ofLine('Tax', 'tax'),
  refund: ofLine(
    'What the item contributes to the refund: `refund_item + refund_tax + refund_shipping`',
    'refund',
  ),
  returned_at: field.time('When the goods arrived; null until then', ({ line }) => line.returnedAt),
  exchange_variant: field.text(
    'Variant that the shopper gets instead; null without an exchange',
    ({ line }) => line.exchangeVariant,
  ),
  barcode: field.text(known('Barcode'), ({ line }) => line.barcode),
  provider_restock_location_id: field.text(
    atProvider('Location, as text, that takes the goods back to stock'),
    ({ line }) => line.providerRestockLocationId,
  ),
  consolidation_tracking: field.text(
    'Tracking number of the shipment in which a partner sends several returns on; null without one',
    ({ line }) => line.consolidationTracking,
  ),
  consolidation_destination_id: field.idText(
    '`id` of the destination of that shipment, as text; null without one',
    ({ line }) => line.consolidationDestinationId,
  ),
  reason: field.text(
    'Why the shopper returns the item; null when no reason was given',
    ({ line }) => line.reason,
  ),
  parent_reason: field.text(
    'Group of the reason; null when no reason was given',
    ({ line }) => line.parentReason,
  ),
  refund_tax: ofLine('Part of the refund for the tax of the goods', 'refundTax'),
  refund_item: ofLine('Part of the refund for the goods', 'refundItem'),
  refund_shipping: ofLine('Part of the refund for shipping, its tax included', 'refundShipping'),
  refund_excluding_shipping: ofLine(
    'Refund without shipping: `refund - refund_shipping`',
    'refundExcludingShipping',
  ),
  refund_shipping_tax: ofLine('Tax in `refund_shipping`', 'refundShippingTax'),
  refund_excluding_shipping_tax: ofLine(
    'Refund without the tax of shipping: `refund - refund_shipping_tax`',
    'refundExcludingShippingTax',
  ),
  outcome: field.other(
    'What the shopper gets for the item; `default` when the return was submitted without a choice',
    z.enum(LINE_OUTCOMES).nullable(),
    ({ line }) => word(LineOutcomeSchema, line.outcome, LINE_OUTCOMES),
  ),
  condition: field.other(
    'What gradings found, with all images of inspections; null until there are any',
    condition.nullable(),
    ({ line }) => (line.condition ? conditionView(line.condition) : null),
  ),
  disposition: field.other(
    'What becomes of the goods; null until they are assessed',
    lineDisposition.nullable(),
    ({ line }) => (line.disposition ? dispositionView(line.disposition) : null),
  ),
  customer_uploads: field.other('Images and videos that the shopper added', uploads, ({ line }) =>
    uploadsView(line.uploads),
  ),
};

export const lineItem = z.object(shapeOf(LINE_ITEM)).meta({ id: 'LineItem' });

/** One line item, as in return details. */
export function lineItemView(source: LineSource): ViewOf<typeof LINE_ITEM> {
  return viewOf(LINE_ITEM, source);
}

/**
 * The values that the fields of an exchange item are read from. Amounts are in the requested currency. `none` is zero
 * as text.
 */
interface ExchangeSource {
  readonly exchange: Exchange;
  readonly basis: CurrencyType;
  readonly none: string;
}

const swap = viewFields<ExchangeSource>();
const ofExchange = (meaning: string, name: 'price' | 'discount' | 'tax' | 'total') =>
  swap.amount(inShopUnlessSelected(meaning), ({ exchange, basis }) =>
    inBasis(exchange[name], basis),
  );
const EXCHANGE = {
  exchange_id: swap.other('Identifier of the exchange item', z.int(), ({ exchange }) =>
    Number(exchange.exchangeId),
  ),
  product_id: swap.id(
    'Identifier of the product at the commerce provider; null when unknown',
    ({ exchange }) => exchange.productId,
  ),
  variant_id: swap.id(
    'Identifier of the variant at the commerce provider; null when unknown',
    ({ exchange }) => exchange.variantId,
  ),
  sku: swap.text('Stock keeping unit; null when unknown', ({ exchange }) => exchange.sku),
  title: swap.text(
    'Title of product and variant; null when unknown',
    ({ exchange }) => exchange.title,
  ),
  price: ofExchange('Gross price, before discount and tax', 'price'),
  discount: ofExchange('Discount', 'discount'),
  tax: ofExchange('Tax', 'tax'),
  total: ofExchange('What the item costs: `price - discount + tax`', 'total'),
  type: swap.text(
    'How it is exchanged: `variant` for another variant, `product` for another product',
    ({ exchange }) => exchange.type,
  ),
  out_of_stock: swap.other(
    'Whether the item was out of stock when the return was submitted',
    z.boolean(),
    ({ exchange }) => exchange.outOfStock,
  ),
  out_of_stock_resolution: swap.text(
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
