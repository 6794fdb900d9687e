import { z } from 'zod';
import {
  type LineAmounts,
  type LineItem,
  LineOutcomeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { word } from '../views/values.ts';
import { LINE_OUTCOMES } from '../vocabulary.ts';
import { inShopUnlessSelected, shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { condition, conditionView, dispositionView, lineDisposition } from './inspection.ts';
import { uploads, uploadsView } from './uploads.ts';

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
/** The description of an amount that is for the whole quantity. */
const ofWholeQuantity = (text: string) => inShopUnlessSelected(`${text}, for the whole quantity`);

const field = viewFields<LineSource>();
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
  price: field.amount(
    ofWholeQuantity('Gross price, before discount and tax'),
    ({ amounts }) => amounts?.price,
  ),
  discount: field.amount(ofWholeQuantity('Discount'), ({ amounts }) => amounts?.discount),
  tax: field.amount(ofWholeQuantity('Tax'), ({ amounts }) => amounts?.tax),
  refund: field.amount(
    ofWholeQuantity(
      'What the item contributes to the refund: `refund_item + refund_tax + refund_shipping`',
    ),
    ({ amounts }) => amounts?.refund,
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
  refund_tax: field.amount(
    ofWholeQuantity('Part of the refund for the tax of the goods'),
    ({ amounts }) => amounts?.refundTax,
  ),
  refund_item: field.amount(
    ofWholeQuantity('Part of the refund for the goods'),
    ({ amounts }) => amounts?.refundItem,
  ),
  refund_shipping: field.amount(
    ofWholeQuantity('Part of the refund for shipping, its tax included'),
    ({ amounts }) => amounts?.refundShipping,
  ),
  refund_excluding_shipping: field.amount(
    ofWholeQuantity('Refund without shipping: `refund - refund_shipping`'),
    ({ amounts }) => amounts?.refundExcludingShipping,
  ),
  refund_shipping_tax: field.amount(
    ofWholeQuantity('Tax in `refund_shipping`'),
    ({ amounts }) => amounts?.refundShippingTax,
  ),
  refund_excluding_shipping_tax: field.amount(
    ofWholeQuantity('Refund without the tax of shipping: `refund - refund_shipping_tax`'),
    ({ amounts }) => amounts?.refundExcludingShippingTax,
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
