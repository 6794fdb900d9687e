import { z } from 'zod';
import {
  type Condition,
  type CustomerUpload,
  CustomerUpload_Kind,
  type Disposition,
  DispositionOutcomeSchema,
  type LineAmounts,
  type LineItem,
  LineOutcomeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull, word } from '../views/values.ts';
import { DISPOSITION_OUTCOMES, LINE_OUTCOMES } from '../vocabulary.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';

/** The line items of return details (interface: Return details, Line item fields), newest shape. */

const GRADES = ['a', 'b', 'c', 'd'] as const;
const CATEGORY_NAMES = ['incorrect_item', 'missing', 'junk'] as const;

/** An object since 2026-10. Before, one of seven words. */
const conditionCategory = z
  .object({
    subject: z.string(),
    title: z.string(),
    grade: z.enum(GRADES).nullable(),
    category_name: z.enum(CATEGORY_NAMES).nullable(),
    category_parent: z.string().nullable(),
  })
  .meta({ description: 'What grading found' });

export const condition = z
  .object({
    description: nullableText(),
    condition_category: conditionCategory.nullable(),
    return_processor: nullableText(),
    note: nullableText(),
    inspected_at: time(),
    images: z.array(z.string()),
  })
  .meta({ id: 'Condition' });
export type ConditionObject = z.infer<typeof condition>;

const lineDisposition = z
  .object({
    disposition_outcome: z.enum(DISPOSITION_OUTCOMES).nullable(),
    return_processor: nullableText(),
    note: nullableText(),
    inspected_at: time(),
  })
  .meta({ id: 'LineDisposition' });

const uploads = z
  .object({
    images: z.array(
      z.object({ id: z.int(), source: nullableText(), url: z.string(), created_at: time() }),
    ),
    media: z.array(
      z.object({ id: z.int(), type: nullableText(), url: z.string(), created_at: time() }),
    ),
  })
  .meta({ id: 'CustomerUploads' });

/** A line item, with its amounts in the requested currency. `none` is the text of zero. */
interface LineSource {
  readonly line: LineItem;
  readonly amounts: LineAmounts | undefined;
  readonly none: string;
}

const field = viewFields<LineSource>();
const LINE_ITEM = {
  line_item_id: field.other(z.int(), ({ line }) => Number(line.lineItemId)),
  provider_line_item_id: field.id(({ line }) => line.providerLineItemId),
  provider_line_item_external_id: field.text(({ line }) => line.providerLineItemExternalId),
  product_id: field.id(({ line }) => line.productId),
  variant_id: field.id(({ line }) => line.variantId),
  sku: field.text(({ line }) => line.sku),
  line_item_title: field.text(({ line }) => line.lineItemTitle),
  variant_title: field.text(({ line }) => line.variantTitle),
  title: field.text(({ line }) => line.title),
  image: field.text(({ line }) => line.image),
  price: field.amount(({ amounts }) => amounts?.price),
  discount: field.amount(({ amounts }) => amounts?.discount),
  tax: field.amount(({ amounts }) => amounts?.tax),
  refund: field.amount(({ amounts }) => amounts?.refund),
  returned_at: field.time(({ line }) => line.returnedAt),
  exchange_variant: field.text(({ line }) => line.exchangeVariant),
  barcode: field.text(({ line }) => line.barcode),
  provider_restock_location_id: field.text(({ line }) => line.providerRestockLocationId),
  consolidation_tracking: field.text(({ line }) => line.consolidationTracking),
  consolidation_destination_id: field.idText(({ line }) => line.consolidationDestinationId),
  reason: field.text(({ line }) => line.reason),
  parent_reason: field.text(({ line }) => line.parentReason),
  refund_tax: field.amount(({ amounts }) => amounts?.refundTax),
  refund_item: field.amount(({ amounts }) => amounts?.refundItem),
  refund_shipping: field.amount(({ amounts }) => amounts?.refundShipping),
  refund_excluding_shipping: field.amount(({ amounts }) => amounts?.refundExcludingShipping),
  refund_shipping_tax: field.amount(({ amounts }) => amounts?.refundShippingTax),
  refund_excluding_shipping_tax: field.amount(({ amounts }) => amounts?.refundExcludingShippingTax),
  outcome: field.other(z.enum(LINE_OUTCOMES).nullable(), ({ line }) =>
    word(LineOutcomeSchema, line.outcome, LINE_OUTCOMES),
  ),
  condition: field.other(condition.nullable(), ({ line }) =>
    line.condition ? conditionView(line.condition) : null,
  ),
  disposition: field.other(lineDisposition.nullable(), ({ line }) =>
    line.disposition ? dispositionView(line.disposition) : null,
  ),
  customer_uploads: field.other(uploads, ({ line }) => uploadsView(line.uploads)),
};

export const lineItem = z.object(shapeOf(LINE_ITEM)).meta({ id: 'LineItem' });

/** One line item of return details. */
export function lineItemView(source: LineSource): ViewOf<typeof LINE_ITEM> {
  return viewOf(LINE_ITEM, source);
}

/** A line item that was assessed with images and never graded has a condition without a category. */
export function conditionView(of: Condition): ConditionObject {
  const grade = GRADES.find((value) => value === of.grade) ?? null;
  const name = CATEGORY_NAMES.find((value) => value === of.categoryName) ?? null;
  const graded = grade !== null || name !== null;
  return {
    description: textOrNull(of.description),
    condition_category: graded
      ? {
          subject: of.subject,
          title: of.title,
          grade,
          category_name: name,
          category_parent: of.categoryParent ?? null,
        }
      : null,
    ...inspectionView(of),
    images: of.images,
  };
}

function dispositionView(of: Disposition): z.infer<typeof lineDisposition> {
  return {
    disposition_outcome: word(DispositionOutcomeSchema, of.outcome, DISPOSITION_OUTCOMES),
    ...inspectionView(of),
  };
}

function inspectionView(of: Condition | Disposition) {
  return {
    return_processor: of.returnProcessor ?? null,
    note: of.note ?? null,
    inspected_at: iso(of.inspectedAt),
  };
}

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
