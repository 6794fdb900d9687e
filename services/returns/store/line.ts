import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type {
  CustomerUploadSchema,
  LineAmountsSchema,
  LineItemSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  amountColumnsOf,
  type Both,
  type Currencies,
  formatAmount,
  minorOf,
  sumsOf,
} from '../../platform/money.ts';
import { LINE_FIELDS } from '../fields.ts';
import {
  type ConditionRow,
  conditionOf,
  type DispositionRow,
  dispositionOf,
  inspectionColumns,
  type LongColumns,
  millisecondsOf,
  readCondition,
  readDisposition,
  timeOrNull,
} from '../inspections/read-inspection.ts';
import { LINE_AMOUNTS, type LineSums, lineRefunds } from '../money/totals.ts';
import type { LineTexts, ReturnRow, UploadRow } from './rows.ts';
import { dispositionText, uploadKindText } from './texts.ts';

const COLUMNS = [
  'id',
  ...LINE_FIELDS.columns,
  ...amountColumnsOf(LINE_AMOUNTS),
  'consolidation_tracking',
  'consolidation_destination_id',
];
const imagesAsJson = (column: string) => `array_to_json(${column})::text`;

/**
 * SQL for a line `l`, its condition `c` and its disposition `d` as one array of texts. Condition and disposition may be
 * null. PostgreSQL makes JSON of such an array in a quarter of the time that an object with column names takes.
 */
export const LINE_TEXTS = lineTexts({ text: (column) => column, images: imagesAsJson });

/** The same as {@link LINE_TEXTS}, but with null for the notes, descriptions and images of inspections. */
export const LISTED_LINE_TEXTS = lineTexts({ text: () => 'null', images: () => 'null' });

/** The same as {@link LINE_TEXTS}, but with `text` for each note and description. */
export function lineTextsWith(text: LongColumns['text']): string {
  return lineTexts({ text, images: imagesAsJson });
}

function lineTexts(long: LongColumns): string {
  return `array[
  ${COLUMNS.map((name) => `l.${name}::text`).join(', ')}, ${millisecondsOf('l.returned_at')},
  ${inspectionColumns(long)}]`;
}

/** A stored line item. `fields` and `sums` have the names that the message uses. */
interface LineRow {
  readonly id: number;
  readonly fields: Parameters<typeof LINE_FIELDS.toColumns>[0];
  readonly sums: Both<LineSums>;
  readonly returned_at: Date | null;
  readonly consolidation_tracking: string;
  readonly consolidation_destination_id: bigint;
  readonly condition: ConditionRow | null;
  readonly disposition: DispositionRow | null;
}

/** Returns the line items of a stored return. Each has its amounts and its message. */
export function linesOf(row: ReturnRow) {
  const currencies = { shop: row.currency, presentment: row.presentment_currency };
  return row.lines.map((texts) => {
    const line = toLineRow(texts, currencies);
    return { sums: line.sums, message: toLineItem(line, row.uploads, currencies) };
  });
}

/** Reads the texts in the order in which they were selected. */
function toLineRow(texts: LineTexts, currencies: Currencies): LineRow {
  let at = 0;
  const maybe = (): string | null => texts[at++] ?? null;
  const text = (): string => texts[at++] ?? '';
  const sumsIn = (currency: string) => sumsOf(LINE_AMOUNTS, () => minorOf(text(), currency));
  // Read the properties in the order of the columns.
  return {
    id: Number(text()),
    fields: LINE_FIELDS.read(maybe),
    sums: { shop: sumsIn(currencies.shop), presentment: sumsIn(currencies.presentment) },
    consolidation_tracking: text(),
    consolidation_destination_id: BigInt(maybe() ?? 0),
    returned_at: timeOrNull(maybe()),
    condition: readCondition(maybe, text),
    disposition: readDisposition(maybe, text),
  };
}

/** Builds the message of one line item. Its refunds are computed from its amounts. */
function toLineItem(
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
    ...(row.disposition && {
      disposition: dispositionOf(row.disposition, dispositionText.fromText),
    }),
    uploads: uploads.filter((upload) => upload.line_item_id === row.id).map(toUpload),
  };
}

function amountsOf(sums: LineSums, currency: string): MessageInitShape<typeof LineAmountsSchema> {
  const texts: Record<string, string> = {};
  for (const [name, minor] of Object.entries({ ...sums, ...lineRefunds(sums) })) {
    texts[name] = formatAmount(minor, currency);
  }
  return texts;
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
