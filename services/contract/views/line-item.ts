import type {
  Condition,
  CustomerUpload,
  LineAmounts,
  LineItem,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CustomerUpload_Kind,
  DispositionOutcomeSchema,
  LineOutcomeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { DISPOSITION_OUTCOMES, LINE_OUTCOMES } from '../limits.ts';
import type { ConditionObject, LineItemObject } from '../resources/return-line.ts';
import { idNumber, idText, iso, known, word } from './values.ts';

const GRADES = ['a', 'b', 'c', 'd'] as const;
const CATEGORY_NAMES = ['incorrect_item', 'missing', 'junk'] as const;

/** One line of return details, with the amounts of the asked-for currency; `none` stands for zero. */
export function lineItemView(
  line: LineItem,
  amounts: LineAmounts | undefined,
  none: string,
): LineItemObject {
  const sum = (text: string | undefined) => known(text) ?? none;
  return {
    line_item_id: Number(line.lineItemId),
    provider_line_item_id: idNumber(line.providerLineItemId),
    provider_line_item_external_id: known(line.providerLineItemExternalId),
    product_id: idNumber(line.productId),
    variant_id: idNumber(line.variantId),
    sku: known(line.sku),
    line_item_title: known(line.lineItemTitle),
    variant_title: known(line.variantTitle),
    title: known(line.title),
    image: known(line.image),
    price: sum(amounts?.price),
    discount: sum(amounts?.discount),
    tax: sum(amounts?.tax),
    refund: sum(amounts?.refund),
    returned_at: iso(line.returnedAt),
    exchange_variant: known(line.exchangeVariant),
    barcode: known(line.barcode),
    provider_restock_location_id: known(line.providerRestockLocationId),
    consolidation_tracking: known(line.consolidationTracking),
    consolidation_destination_id: idText(line.consolidationDestinationId),
    reason: known(line.reason),
    parent_reason: known(line.parentReason),
    refund_tax: sum(amounts?.refundTax),
    refund_item: sum(amounts?.refundItem),
    refund_shipping: sum(amounts?.refundShipping),
    refund_excluding_shipping: sum(amounts?.refundExcludingShipping),
    refund_shipping_tax: sum(amounts?.refundShippingTax),
    refund_excluding_shipping_tax: sum(amounts?.refundExcludingShippingTax),
    outcome: word(LineOutcomeSchema, line.outcome, LINE_OUTCOMES),
    condition: line.condition ? conditionView(line.condition) : null,
    disposition: line.disposition
      ? {
          disposition_outcome: word(
            DispositionOutcomeSchema,
            line.disposition.outcome,
            DISPOSITION_OUTCOMES,
          ),
          return_processor: line.disposition.returnProcessor ?? null,
          note: line.disposition.note ?? null,
          inspected_at: iso(line.disposition.inspectedAt),
        }
      : null,
    customer_uploads: uploadsView(line.uploads),
  };
}

/** A line that was assessed with images and never graded has a condition without a category. */
function conditionView(condition: Condition): ConditionObject {
  const grade = GRADES.find((value) => value === condition.grade) ?? null;
  const name = CATEGORY_NAMES.find((value) => value === condition.categoryName) ?? null;
  const graded = grade !== null || name !== null;
  return {
    description: known(condition.description),
    condition_category: graded
      ? {
          subject: condition.subject,
          title: condition.title,
          grade,
          category_name: name,
          category_parent: condition.categoryParent ?? null,
        }
      : null,
    return_processor: condition.returnProcessor ?? null,
    note: condition.note ?? null,
    inspected_at: iso(condition.inspectedAt),
    images: condition.images,
  };
}

function uploadsView(uploads: readonly CustomerUpload[]): LineItemObject['customer_uploads'] {
  const of = (kind: CustomerUpload_Kind) => uploads.filter((upload) => upload.kind === kind);
  return {
    images: of(CustomerUpload_Kind.IMAGE).map(({ id, source, url, createdAt }) => ({
      id: Number(id),
      source: known(source),
      url,
      created_at: iso(createdAt),
    })),
    media: of(CustomerUpload_Kind.MEDIA).map(({ id, mediaType, url, createdAt }) => ({
      id: Number(id),
      type: known(mediaType),
      url,
      created_at: iso(createdAt),
    })),
  };
}
