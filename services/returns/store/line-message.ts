import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type {
  ConditionSchema,
  CustomerUploadSchema,
  DispositionSchema,
  ExchangeSchema,
  LineAmountsSchema,
  LineItemSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Both } from '../money/amounts.ts';
import { formatAmount } from '../money/money.ts';
import { exchangeSumsOf } from '../money/stored-sums.ts';
import { type ExchangeSums, type LineSums, lineRefunds, netOf } from '../money/totals.ts';
import type { ConditionRow, DispositionRow, ExchangeRow, LineRow, UploadRow } from './rows.ts';
import { dispositionText, lineOutcomeText, uploadKindText } from './texts.ts';

/** Both currencies of a return, ISO 4217. */
export interface Currencies {
  readonly shop: string;
  readonly presentment: string;
}

/** Builds the message of one line, with what follows from its sums. */
export function toLineItem(
  row: LineRow,
  uploads: readonly UploadRow[],
  o: { readonly currencies: Currencies; readonly sums: Both<LineSums> },
): MessageInitShape<typeof LineItemSchema> {
  const { currencies, sums } = o;
  const condition = conditionOf(row.condition, row.disposition?.images ?? []);
  return {
    lineItemId: BigInt(row.id),
    providerLineItemId: BigInt(row.provider_line_item_id),
    providerLineItemExternalId: row.provider_line_item_external_id,
    productId: BigInt(row.product_id),
    variantId: BigInt(row.variant_id),
    sku: row.sku,
    lineItemTitle: row.line_item_title,
    variantTitle: row.variant_title,
    title: row.title,
    image: row.image,
    quantity: row.quantity,
    amounts: amountsOf(sums.shop, currencies.shop),
    presentmentAmounts: amountsOf(sums.presentment, currencies.presentment),
    ...(row.returned_at && { returnedAt: timestampFromDate(row.returned_at) }),
    exchangeVariant: row.exchange_variant,
    barcode: row.barcode,
    providerRestockLocationId: row.provider_restock_location_id,
    consolidationTracking: row.consolidation_tracking,
    consolidationDestinationId: BigInt(row.consolidation_destination_id ?? 0),
    reason: row.reason,
    parentReason: row.parent_reason,
    outcome: lineOutcomeText.fromText(row.outcome),
    ...(condition && { condition }),
    ...(row.disposition && { disposition: dispositionOf(row.disposition) }),
    uploads: uploads.filter((upload) => upload.line_item_id === row.id).map(toUpload),
    hsCode: row.hs_code,
    countryOfOrigin: row.country_of_origin,
    weightG: row.weight_g,
  };
}

function amountsOf(sums: LineSums, currency: string): MessageInitShape<typeof LineAmountsSchema> {
  const refunds = lineRefunds(sums);
  const text = (minor: bigint) => formatAmount(minor, currency);
  return {
    price: text(sums.price),
    discount: text(sums.discount),
    tax: text(sums.tax),
    refund: text(refunds.refund),
    refundItem: text(sums.refundItem),
    refundTax: text(sums.refundTax),
    refundShipping: text(sums.refundShipping),
    refundShippingTax: text(sums.refundShippingTax),
    refundExcludingShipping: text(refunds.refundExcludingShipping),
    refundExcludingShippingTax: text(refunds.refundExcludingShippingTax),
  };
}

/**
 * The condition of a line: the grading, with the pictures of the assessment after its own. A line
 * that was assessed with pictures and never graded has a condition of pictures alone.
 */
function conditionOf(
  row: ConditionRow | null,
  assessed: readonly string[],
): MessageInitShape<typeof ConditionSchema> | undefined {
  if (!row) return assessed.length === 0 ? undefined : { images: [...assessed] };
  return {
    description: row.description,
    subject: row.subject,
    title: row.title,
    ...(row.grade !== null && { grade: row.grade }),
    ...(row.category_name !== null && { categoryName: row.category_name }),
    ...(row.category_parent !== null && { categoryParent: row.category_parent }),
    ...inspectionOf(row),
    images: [...row.images, ...assessed],
  };
}

function dispositionOf(row: DispositionRow): MessageInitShape<typeof DispositionSchema> {
  return { outcome: dispositionText.fromText(row.outcome), ...inspectionOf(row) };
}

function inspectionOf(row: ConditionRow | DispositionRow) {
  return {
    ...(row.return_processor !== null && { returnProcessor: row.return_processor }),
    ...(row.note !== null && { note: row.note }),
    ...(row.inspected_at !== null && {
      inspectedAt: timestampFromDate(row.inspected_at),
    }),
  };
}

function toUpload(row: UploadRow): MessageInitShape<typeof CustomerUploadSchema> {
  return {
    id: BigInt(row.id),
    kind: uploadKindText.fromText(row.kind),
    source: row.source,
    mediaType: row.media_type,
    url: row.url,
    createdAt: timestampFromDate(new Date(row.created_at)),
  };
}

/** Builds the message of one exchange item. */
export function toExchange(
  row: ExchangeRow,
  currencies: Currencies,
): MessageInitShape<typeof ExchangeSchema> {
  const shop = exchangeSumsOf(row, '', currencies.shop);
  const presentment = exchangeSumsOf(row, 'presentment_', currencies.presentment);
  const amount = (pick: (sums: ExchangeSums) => bigint) => ({
    shop: formatAmount(pick(shop), currencies.shop),
    presentment: formatAmount(pick(presentment), currencies.presentment),
  });
  return {
    exchangeId: BigInt(row.id),
    productId: BigInt(row.product_id),
    variantId: BigInt(row.variant_id),
    sku: row.sku,
    title: row.title,
    price: amount((sums) => sums.price),
    discount: amount((sums) => sums.discount),
    tax: amount((sums) => sums.tax),
    total: amount(netOf),
    type: row.type,
    outOfStock: row.out_of_stock,
    ...(row.out_of_stock_resolution !== null && {
      outOfStockResolution: row.out_of_stock_resolution,
    }),
  };
}
