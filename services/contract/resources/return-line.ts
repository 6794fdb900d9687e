import { z } from 'zod';
import { DISPOSITION_OUTCOMES, LINE_OUTCOMES } from '../limits.ts';

/** The line items of return details (interface: Return details, Line item fields), newest shape. */

export const amount = () => z.string().meta({ description: 'Decimal amount' });
export const known = () => z.string().nullable();
export const knownId = () => z.int().nullable();
export const time = () =>
  z.string().nullable().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });

/** From 2026-10 an object; before, one of seven words. */
const conditionCategory = z
  .object({
    subject: z.string(),
    title: z.string(),
    grade: z.enum(['a', 'b', 'c', 'd']).nullable(),
    category_name: z.enum(['incorrect_item', 'missing', 'junk']).nullable(),
    category_parent: z.string().nullable(),
  })
  .meta({ description: 'What grading found' });

export const condition = z
  .object({
    description: known(),
    condition_category: conditionCategory.nullable(),
    return_processor: known(),
    note: known(),
    inspected_at: time(),
    images: z.array(z.string()),
  })
  .meta({ id: 'Condition' });

const lineDisposition = z
  .object({
    disposition_outcome: z.enum(DISPOSITION_OUTCOMES).nullable(),
    return_processor: known(),
    note: known(),
    inspected_at: time(),
  })
  .meta({ id: 'LineDisposition' });

const uploads = z
  .object({
    images: z.array(
      z.object({ id: z.int(), source: known(), url: z.string(), created_at: time() }),
    ),
    media: z.array(z.object({ id: z.int(), type: known(), url: z.string(), created_at: time() })),
  })
  .meta({ id: 'CustomerUploads' });

export const lineItem = z
  .object({
    line_item_id: z.int(),
    provider_line_item_id: knownId(),
    provider_line_item_external_id: known(),
    product_id: knownId(),
    variant_id: knownId(),
    sku: known(),
    line_item_title: known(),
    variant_title: known(),
    title: known(),
    image: known(),
    price: amount(),
    discount: amount(),
    tax: amount(),
    refund: amount(),
    returned_at: time(),
    exchange_variant: known(),
    barcode: known(),
    provider_restock_location_id: known(),
    consolidation_tracking: known(),
    consolidation_destination_id: known(),
    reason: known(),
    parent_reason: known(),
    refund_tax: amount(),
    refund_item: amount(),
    refund_shipping: amount(),
    refund_excluding_shipping: amount(),
    refund_shipping_tax: amount(),
    refund_excluding_shipping_tax: amount(),
    outcome: z.enum(LINE_OUTCOMES).nullable(),
    condition: condition.nullable(),
    disposition: lineDisposition.nullable(),
    customer_uploads: uploads,
  })
  .meta({ id: 'LineItem' });
export type LineItemObject = z.infer<typeof lineItem>;
export type ConditionObject = z.infer<typeof condition>;
