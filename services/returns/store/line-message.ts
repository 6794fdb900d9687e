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
import { formatAmount } from '../money/money.ts';
import { exchangeSumsOf } from '../money/stored-sums.ts';
import { type ExchangeSums, type LineSums, lineRefunds, netOf } from '../money/totals.ts';
import type { ConditionRow, DispositionRow, ExchangeRow, LineRow, UploadRow } from './rows.ts';
import { dispositionText, uploadKindText } from './texts.ts';

/** Both currencies of a return, ISO 4217. */
export interface Currencies {
  readonly shop: string;
  readonly presentment: string;
}

/** Builds the message of one line, with what follows from its sums. */
export function toLineItem(
  row: LineRow,
  uploads: readonly UploadRow[],
  currencies: Currencies,
): MessageInitShape<typeof LineItemSchema> {
  const condition = conditionOf(row.condition, row.disposition?.images ?? []);
  return {
    lineItemId: BigInt(row.id),
    ...row.fields,
    amounts: amountsOf(row.sums.shop, currencies.shop),
    presentmentAmounts: amountsOf(row.sums.presentment, currencies.presentment),
    ...(row.returned_at && { returnedAt: timestampFromDate(row.returned_at) }),
    consolidationTracking: row.consolidation_tracking,
    consolidationDestinationId: row.consolidation_destination_id,
    ...(condition && { condition }),
    ...(row.disposition && { disposition: dispositionOf(row.disposition) }),
    uploads: uploads.filter((upload) => upload.line_item_id === row.id).map(toUpload),
  };
}

/** What was submitted, and the refunds that follow. */
function amountsOf(sums: LineSums, currency: string): MessageInitShape<typeof LineAmountsSchema> {
  const texts: Record<string, string> = {};
  for (const [name, minor] of Object.entries({ ...sums, ...lineRefunds(sums) })) {
    texts[name] = formatAmount(minor, currency);
  }
  return texts;
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
