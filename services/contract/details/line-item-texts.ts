import { selectable } from './field.ts';

// What each field of a line item means, for the OpenAPI documents.

const known = (text: string) => `${text}; null when unknown`;
const atProvider = (text: string) => known(`${text} at the commerce provider`);
/** Amounts are of the whole quantity. */
const inShop = (text: string) => selectable(`${text}, for the whole quantity`);

export const LINE_ITEM_TEXTS = {
  line_item_id: 'Identifier of the line item, by which it is graded and assessed',
  provider_line_item_id: atProvider('Identifier of the order line'),
  provider_line_item_external_id: atProvider('Second identifier of the order line, as text,'),
  product_id: atProvider('Identifier of the product'),
  variant_id: atProvider('Identifier of the variant'),
  sku: known('Stock keeping unit'),
  line_item_title: known('Title of the product on the order'),
  variant_title: known('Title of the variant, such as its size'),
  title: known('Title of product and variant together'),
  image: known('Link to an image of the product'),
  price: inShop('Gross price, before discount and tax'),
  discount: inShop('Discount'),
  tax: inShop('Tax'),
  refund: inShop(
    'What the item contributes to the refund: `refund_item + refund_tax + refund_shipping`',
  ),
  returned_at: 'When the goods arrived; null until then',
  exchange_variant: 'Variant that the shopper gets instead; null without an exchange',
  barcode: known('Barcode'),
  provider_restock_location_id: atProvider('Location, as text, that takes the goods back to stock'),
  consolidation_tracking:
    'Tracking number of the shipment in which a partner sends several returns on; null without one',
  consolidation_destination_id:
    '`id` of the destination of that shipment, as text; null without one',
  reason: 'Why the shopper returns the item; null when no reason was given',
  parent_reason: 'Group of the reason; null when no reason was given',
  refund_tax: inShop('Part of the refund for the tax of the goods'),
  refund_item: inShop('Part of the refund for the goods'),
  refund_shipping: inShop('Part of the refund for shipping, its tax included'),
  refund_excluding_shipping: inShop('Refund without shipping: `refund - refund_shipping`'),
  refund_shipping_tax: inShop('Tax in `refund_shipping`'),
  refund_excluding_shipping_tax: inShop(
    'Refund without the tax of shipping: `refund - refund_shipping_tax`',
  ),
  outcome:
    'What the shopper gets for the item; `default` when the return was submitted without a choice',
  condition: 'What gradings found, with all images of inspections; null until there are any',
  disposition: 'What becomes of the goods; null until they are assessed',
  customer_uploads: 'Images and videos that the shopper added',
} as const;

export const CATEGORY_TEXTS = {
  subject: 'What was graded; `item` unless the grading named another subject',
  title: 'The category in words',
  grade: 'Grade of a sellable item, `a` is the best; null for the other categories',
  category_name: 'Name of a category without a grade; null for grades',
  category_parent: 'Group of the category, as the grading named it; null without one',
} as const;

/** Gradings and assessments have these. */
export const INSPECTION_TEXTS = {
  return_processor:
    'Contact address of the warehouse partner that inspected the item; null without one',
  note: 'Free text of the inspection; null without one',
  inspected_at: 'When the item was inspected',
} as const;
