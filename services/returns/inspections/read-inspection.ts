import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type {
  ConditionSchema,
  DispositionOutcome,
  DispositionSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';

// The condition and the disposition in the details of a line item. `store/line.ts` reads both together with the line
// item.

const INSPECTION = ['return_processor', 'note'];
/** Columns of an inspection that may be many kilobytes long. */
const LONG_TEXTS = ['description', 'note'];
const CONDITION = ['grade', 'category_name', 'category_parent', 'description', 'subject', 'title'];

/** SQL for the long columns of an inspection, such as `c.note`. */
export interface LongColumns {
  readonly text: (column: string) => string;
  readonly images: (column: string) => string;
}

/** SQL for the columns of condition `c` and disposition `d` as texts, in the order in which this file reads them. */
export function inspectionColumns(long: LongColumns): string {
  return `c.grading_id::text, ${inspected('c', CONDITION, long)},
  d.assessment_id::text, ${inspected('d', ['outcome'], long)}`;
}

function inspected(of: string, columns: readonly string[], long: LongColumns): string {
  const texts = [...columns, ...INSPECTION].map((name) =>
    LONG_TEXTS.includes(name) ? long.text(`${of}.${name}`) : `${of}.${name}`,
  );
  return [...texts, millisecondsOf(`${of}.inspected_at`), long.images(`${of}.images`)].join(', ');
}

/** SQL for a time as a number, because the text of a timestamp depends on settings of the session. */
export function millisecondsOf(column: string): string {
  return `(extract(epoch from ${column}) * 1000)::bigint::text`;
}

/** Returns the next selected text, which may be null. */
type Maybe = () => string | null;

/** The stored grading of a line item: a row of `line_conditions`. */
export interface ConditionRow {
  readonly description: string;
  readonly subject: string;
  readonly title: string;
  readonly grade: string | null;
  readonly category_name: string | null;
  readonly category_parent: string | null;
  readonly return_processor: string | null;
  readonly note: string | null;
  readonly inspected_at: Date | null;
  readonly images: readonly string[];
}

/** The stored assessment of a line item: a row of `line_dispositions`. */
export interface DispositionRow {
  readonly outcome: string;
  readonly return_processor: string | null;
  readonly note: string | null;
  readonly inspected_at: Date | null;
  readonly images: readonly string[];
}

/**
 * Reads the columns of a condition, in the order in which they were selected. Null when the line item was never graded.
 */
export function readCondition(maybe: Maybe, text: () => string): ConditionRow | null {
  const id = maybe();
  const row = {
    grade: maybe(),
    category_name: maybe(),
    category_parent: maybe(),
    description: text(),
    subject: text(),
    title: text(),
    ...readRest(maybe),
  };
  return id === null ? null : row;
}

/** Reads the columns of a disposition. Null when the line item was never assessed. */
export function readDisposition(maybe: Maybe, text: () => string): DispositionRow | null {
  const id = maybe();
  const row = { outcome: text(), ...readRest(maybe) };
  return id === null ? null : row;
}

function readRest(maybe: Maybe) {
  return {
    return_processor: maybe(),
    note: maybe(),
    inspected_at: timeOrNull(maybe()),
    images: listOf(maybe()),
  };
}

/** Converts a time that was selected in milliseconds. */
export function timeOrNull(text: string | null): Date | null {
  return text === null ? null : new Date(Number(text));
}

function listOf(text: string | null): readonly string[] {
  return text === null || text === '[]' ? [] : JSON.parse(text);
}

/**
 * Returns the condition of a line item: its grading with the images of the grading, and then the images of its
 * assessment. A line item that was assessed with images and never graded has a condition with only images.
 */
export function conditionOf(
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

/**
 * Returns the disposition of a line item, which is its newest assessment.
 *
 * @param outcomeOf converts the stored name of an outcome.
 */
export function dispositionOf(
  row: DispositionRow,
  outcomeOf: (text: string) => DispositionOutcome,
): MessageInitShape<typeof DispositionSchema> {
  return { outcome: outcomeOf(row.outcome), ...inspectionOf(row) };
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
