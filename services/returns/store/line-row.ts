import type { ConditionRow, DispositionRow, LineRow } from './rows.ts';

/** A line as the database answers it: its columns as text, in the order of {@link LINE_TEXTS}. */
export type LineTexts = readonly (string | null)[];

const AMOUNTS = ['price', 'discount', 'tax'];
const REFUNDS = ['refund_item', 'refund_tax', 'refund_shipping', 'refund_shipping_tax'];
const SUMS = [...AMOUNTS, ...REFUNDS];

const COLUMNS = [
  ...['id', 'provider_line_item_id', 'product_id', 'variant_id', 'quantity', 'weight_g'],
  ...[
    'provider_line_item_external_id',
    'sku',
    'line_item_title',
    'variant_title',
    'title',
    'image',
  ],
  ...['exchange_variant', 'barcode', 'provider_restock_location_id', 'consolidation_tracking'],
  ...['reason', 'parent_reason', 'outcome', 'hs_code', 'country_of_origin'],
  ...[...SUMS, ...SUMS.map((name) => `presentment_${name}`)],
  'consolidation_destination_id',
];
const INSPECTION = ['return_processor', 'note'];
/** Columns of an inspection that may be of many kilobytes. */
const LONG_TEXTS = ['description', 'note'];
const CONDITION = ['grade', 'category_name', 'category_parent', 'description', 'subject', 'title'];

/** What stands for the long columns of an inspection, each given as `c.note`. */
interface LongColumns {
  readonly text: (column: string) => string;
  readonly images: (column: string) => string;
}

const imagesAsJson = (column: string) => `array_to_json(${column})::text`;

/**
 * A text array of line `l` with its condition `c` and disposition `d`, which may be null: an array of
 * texts becomes JSON in a quarter of the time that an object with a name for each column takes.
 */
export const LINE_TEXTS = lineTexts({ text: (column) => column, images: imagesAsJson });

/** {@link LINE_TEXTS} with null for the notes, descriptions and pictures of inspections. */
export const LISTED_LINE_TEXTS = lineTexts({ text: () => 'null', images: () => 'null' });

/** {@link LINE_TEXTS} with `text` instead of each note and description. */
export function lineTextsWith(text: LongColumns['text']): string {
  return lineTexts({ text, images: imagesAsJson });
}

function lineTexts(long: LongColumns): string {
  return `array[
  ${COLUMNS.map((name) => `l.${name}::text`).join(', ')}, ${millisecondsOf('l.returned_at')},
  c.grading_id::text, ${inspected('c', CONDITION, long)},
  d.assessment_id::text, ${inspected('d', ['outcome'], long)}]`;
}

function inspected(of: string, columns: readonly string[], long: LongColumns): string {
  const texts = [...columns, ...INSPECTION].map((name) =>
    LONG_TEXTS.includes(name) ? long.text(`${of}.${name}`) : `${of}.${name}`,
  );
  return [...texts, millisecondsOf(`${of}.inspected_at`), long.images(`${of}.images`)].join(', ');
}

/** Text that no setting of the session changes. */
function millisecondsOf(column: string): string {
  return `(extract(epoch from ${column}) * 1000)::bigint::text`;
}

/** Reads texts in the order in which they were selected. */
export function toLineRow(texts: LineTexts): LineRow {
  let at = 0;
  const maybe = (): string | null => texts[at++] ?? null;
  const text = (): string => texts[at++] ?? '';
  const number = (): number => Number(texts[at++]);
  // The order of the properties is that of the columns.
  return {
    id: number(),
    provider_line_item_id: number(),
    product_id: number(),
    variant_id: number(),
    quantity: number(),
    weight_g: number(),
    provider_line_item_external_id: text(),
    sku: text(),
    line_item_title: text(),
    variant_title: text(),
    title: text(),
    image: text(),
    exchange_variant: text(),
    barcode: text(),
    provider_restock_location_id: text(),
    consolidation_tracking: text(),
    reason: text(),
    parent_reason: text(),
    outcome: text(),
    hs_code: text(),
    country_of_origin: text(),
    price: text(),
    discount: text(),
    tax: text(),
    refund_item: text(),
    refund_tax: text(),
    refund_shipping: text(),
    refund_shipping_tax: text(),
    presentment_price: text(),
    presentment_discount: text(),
    presentment_tax: text(),
    presentment_refund_item: text(),
    presentment_refund_tax: text(),
    presentment_refund_shipping: text(),
    presentment_refund_shipping_tax: text(),
    consolidation_destination_id: numberOrNull(maybe()),
    returned_at: timeOrNull(maybe()),
    condition: conditionOf(maybe, text),
    disposition: dispositionOf(maybe, text),
  };
}

function conditionOf(maybe: () => string | null, text: () => string): ConditionRow | null {
  const id = maybe();
  const row = {
    grade: maybe(),
    category_name: maybe(),
    category_parent: maybe(),
    description: text(),
    subject: text(),
    title: text(),
    ...inspectionOf(maybe),
  };
  return id === null ? null : row;
}

function dispositionOf(maybe: () => string | null, text: () => string): DispositionRow | null {
  const id = maybe();
  const row = { outcome: text(), ...inspectionOf(maybe) };
  return id === null ? null : row;
}

function inspectionOf(maybe: () => string | null) {
  return {
    return_processor: maybe(),
    note: maybe(),
    inspected_at: timeOrNull(maybe()),
    images: listOf(maybe()),
  };
}

function numberOrNull(text: string | null): number | null {
  return text === null ? null : Number(text);
}

function timeOrNull(text: string | null): Date | null {
  return text === null ? null : new Date(Number(text));
}

function listOf(text: string | null): readonly string[] {
  return text === null || text === '[]' ? [] : JSON.parse(text);
}
