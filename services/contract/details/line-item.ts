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
import { means, nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull, word } from '../views/values.ts';
import { DISPOSITION_OUTCOMES, LINE_OUTCOMES } from '../vocabulary.ts';
import { shapeOf, type ViewOf, viewFields, viewOf } from './field.ts';
import { CATEGORY_TEXTS, INSPECTION_TEXTS, LINE_ITEM_TEXTS } from './line-item-texts.ts';

/** The line items of return details (interface: Return details, Line item fields), newest shape. */

const GRADES = ['a', 'b', 'c', 'd'] as const;
const CATEGORY_NAMES = ['incorrect_item', 'missing', 'junk'] as const;

/** An object since 2026-10. Before, one of seven words. */
const conditionCategory = z
  .object({
    subject: means(z.string(), CATEGORY_TEXTS.subject),
    title: means(z.string(), CATEGORY_TEXTS.title),
    grade: means(z.enum(GRADES).nullable(), CATEGORY_TEXTS.grade),
    category_name: means(z.enum(CATEGORY_NAMES).nullable(), CATEGORY_TEXTS.category_name),
    category_parent: means(nullableText(), CATEGORY_TEXTS.category_parent),
  })
  .meta({ description: 'What grading found' });

const inspection = {
  return_processor: means(nullableText(), INSPECTION_TEXTS.return_processor),
  note: means(nullableText(), INSPECTION_TEXTS.note),
  inspected_at: means(time(), INSPECTION_TEXTS.inspected_at),
};

/** Says what {@link condition} says in every version. */
export const CATEGORY_TEXT =
  'Category of the newest grading; null for an item with images that was never graded';

export const condition = z
  .object({
    description: means(nullableText(), 'Free text of the grading about the item; null without one'),
    condition_category: means(conditionCategory.nullable(), CATEGORY_TEXT),
    ...inspection,
    images: means(z.array(z.string()), 'Links to images: of the grading, then of the assessment'),
  })
  .meta({ id: 'Condition' });
export type ConditionObject = z.infer<typeof condition>;

const lineDisposition = z
  .object({
    disposition_outcome: means(
      z.enum(DISPOSITION_OUTCOMES).nullable(),
      'What becomes of the goods after the inspection',
    ),
    ...inspection,
  })
  .meta({ id: 'LineDisposition' });

const uploadId = () => means(z.int(), 'Identifier of the upload');
const uploadLink = {
  url: means(z.string(), 'Link to the file'),
  created_at: means(time(), 'When it was added'),
};

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

export const lineItem = z.object(shapeOf(LINE_ITEM, LINE_ITEM_TEXTS)).meta({ id: 'LineItem' });

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
