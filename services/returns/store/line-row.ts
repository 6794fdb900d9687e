import { LINE_AMOUNTS, LINE_FIELDS } from '../fields/line.ts';
import { amountColumnsOf } from '../money/amount-columns.ts';
import { sumsOf } from '../money/amounts.ts';
import { minorOf } from '../money/money.ts';
import type { Currencies } from './line-message.ts';
import type { ConditionRow, DispositionRow, LineRow } from './rows.ts';

/** A line as the database answers it: its columns as text, in the order of {@link LINE_TEXTS}. */
export type LineTexts = readonly (string | null)[];

const COLUMNS = [
  'id',
  ...LINE_FIELDS.columns,
  ...amountColumnsOf(LINE_AMOUNTS),
  'consolidation_tracking',
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
export function toLineRow(texts: LineTexts, currencies: Currencies): LineRow {
  let at = 0;
  const maybe = (): string | null => texts[at++] ?? null;
  const text = (): string => texts[at++] ?? '';
  const sumsIn = (currency: string) => sumsOf(LINE_AMOUNTS, () => minorOf(text(), currency));
  // The order of the properties is that of the columns.
  return {
    id: Number(text()),
    fields: LINE_FIELDS.read(maybe),
    sums: { shop: sumsIn(currencies.shop), presentment: sumsIn(currencies.presentment) },
    consolidation_tracking: text(),
    consolidation_destination_id: BigInt(maybe() ?? 0),
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

function timeOrNull(text: string | null): Date | null {
  return text === null ? null : new Date(Number(text));
}

function listOf(text: string | null): readonly string[] {
  return text === null || text === '[]' ? [] : JSON.parse(text);
}
