import { z } from 'zod';
import type { Actor } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  ApplyAssessmentsRequest,
  ApplyGradingsRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
  SHORT_TEXT_MAX,
} from '../../contract/limits.ts';
import { packedText } from '../../platform/postgres/packed-texts.ts';
import { brokenActorRule } from '../../platform/values/actor.ts';
import {
  callerShape,
  id,
  parseInput,
  requiredText,
  text,
  time,
} from '../../platform/values/input.ts';
import { quantity } from '../fields.ts';
import { NEXT_REVISION } from '../store/next-revision.ts';
import { dispositionText } from '../store/texts.ts';
import type { InspectionKind, InspectionStore } from './inspection-store.ts';

/** Maximum number of inspections in one call. */
const MAX_INSPECTIONS = 100;

/** The schema of the inspections in one call. */
const inspections = <T extends z.ZodType>(inspection: T) =>
  z
    .array(inspection)
    .min(1, 'must hold at least one')
    .max(MAX_INSPECTIONS, `must hold at most ${MAX_INSPECTIONS}`);

/** Links to images. This service never fetches them. */
const images = z
  .array(text(IMAGE_MAX))
  .max(IMAGES_PER_ITEM_MAX, `must hold at most ${IMAGES_PER_ITEM_MAX}`);

/** The fields that both kinds of inspection have. */
const inspectionShape = {
  returnProcessor: text(RETURN_PROCESSOR_MAX).optional(),
  note: text(NOTE_MAX).optional(),
  inspectedAt: time.optional(),
};

/** The actor who inspected; absent when it was the caller. It is checked in the same way as the caller. */
const inspector = z
  .custom<Actor>()
  .superRefine((actor, context) => {
    const message = brokenActorRule(actor);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .optional();

const assessment = z.object({
  assessmentId: id,
  lineItemId: id,
  disposition: z.object(
    {
      outcome: z
        .enum(DispositionOutcome, 'is unknown')
        .refine((value) => value !== DispositionOutcome.UNSPECIFIED, 'is required'),
      quantity: quantity.optional(),
      ...inspectionShape,
    },
    'is required',
  ),
  images,
  actor: inspector,
});
type Assessment = z.output<typeof assessment>;

const assessmentBatch = z.object({ ...callerShape, assessments: inspections(assessment) });

const ASSESSMENT_KIND: InspectionKind<Assessment> = {
  statement: {
    name: 'store-assessments',
    text: storeStatement({
      table: 'line_dispositions',
      idColumn: 'assessment_id',
      columns: {
        outcome: 'text',
        quantity: 'integer',
        return_processor: 'text',
        note: 'packed text',
        inspected_at: 'timestamptz',
        images: 'text[]',
      },
      entry: 'line.assessed',
      previous: ['outcome', 'quantity', 'return_processor', 'note', 'inspected_at'],
    }),
  },
  idOf: (one) => one.assessmentId,
  rowOf: ({ disposition, images: pictures }, texts) => ({
    outcome: dispositionText.toText(disposition.outcome),
    quantity: disposition.quantity,
    return_processor: disposition.returnProcessor,
    note: texts.add(disposition.note),
    inspected_at: disposition.inspectedAt,
    images: pictures,
  }),
  entryOf: ({ lineItemId, disposition }) => {
    const outcome = dispositionText.toText(disposition.outcome);
    const { quantity: units } = disposition;
    const part = units === undefined ? '' : `, ${units} ${units === 1 ? 'unit' : 'units'}`;
    const text = `A line was assessed: ${outcome.replaceAll('_', ' ')}${part}`;
    const facts = { line: `${lineItemId}`, outcome };
    return { text, facts: units === undefined ? facts : { ...facts, quantity: `${units}` } };
  },
  isMissing: ({ disposition }) => disposition.outcome === DispositionOutcome.MISSING,
};

/**
 * Stores assessments of the dispositions service; see {@link InspectionStore.takeOver}. In the details, their images
 * are in the condition of the line item, after the images of its grading: `conditionOf` in `store/to-message.ts`.
 *
 * @throws DomainError INVALID_ARGUMENT; LINE_ITEM_NOT_FOUND when the shop has no such line item; RETURN_TOO_LARGE.
 */
export async function applyAssessments(
  store: InspectionStore,
  request: ApplyAssessmentsRequest,
): Promise<readonly Return[]> {
  const { shopId, actor, assessments } = parseInput(assessmentBatch, request);
  const wantsReturns = !request.withoutReturns;
  return store.takeOver({ shopId, actor, inspections: assessments, wantsReturns }, ASSESSMENT_KIND);
}

const GRADES = ['a', 'b', 'c', 'd'] as const;
const CATEGORIES = ['incorrect_item', 'missing', 'junk'] as const;

const grading = z.object({
  gradingId: id,
  lineItemId: id,
  condition: z
    .object(
      {
        description: text(NOTE_MAX),
        subject: requiredText(SHORT_TEXT_MAX),
        title: requiredText(SHORT_TEXT_MAX),
        grade: z.enum(GRADES, 'must be a, b, c or d').optional(),
        categoryName: z.enum(CATEGORIES, `must be one of ${CATEGORIES.join(', ')}`).optional(),
        categoryParent: text(SHORT_TEXT_MAX).optional(),
        ...inspectionShape,
        images,
      },
      'is required',
    )
    .refine(
      (condition) => (condition.grade === undefined) !== (condition.categoryName === undefined),
      'must have a grade or a category_name',
    ),
  actor: inspector,
});
type Grading = z.output<typeof grading>;

const gradingBatch = z.object({ ...callerShape, gradings: inspections(grading) });

const GRADING_KIND: InspectionKind<Grading> = {
  statement: {
    name: 'store-gradings',
    text: storeStatement({
      table: 'line_conditions',
      idColumn: 'grading_id',
      columns: {
        description: 'packed text',
        subject: 'text',
        title: 'text',
        grade: 'text',
        category_name: 'text',
        category_parent: 'text',
        return_processor: 'text',
        note: 'packed text',
        inspected_at: 'timestamptz',
        images: 'text[]',
      },
      entry: 'line.graded',
      previous: ['title', 'description', 'note', 'inspected_at'],
    }),
  },
  idOf: (one) => one.gradingId,
  rowOf: ({ condition }, texts) => ({
    description: texts.add(condition.description),
    subject: condition.subject,
    title: condition.title,
    grade: condition.grade,
    category_name: condition.categoryName,
    category_parent: condition.categoryParent,
    return_processor: condition.returnProcessor,
    note: texts.add(condition.note),
    inspected_at: condition.inspectedAt,
    images: condition.images,
  }),
  entryOf: ({ lineItemId, condition: { title } }) => ({
    text: `A line was graded: ${title}`,
    facts: { line: `${lineItemId}`, title },
  }),
  isMissing: () => false,
};

/**
 * Stores gradings of the dispositions service; see {@link InspectionStore.takeOver}.
 *
 * @throws DomainError INVALID_ARGUMENT; LINE_ITEM_NOT_FOUND when the shop has no such line item; RETURN_TOO_LARGE.
 */
export async function applyGradings(
  store: InspectionStore,
  request: ApplyGradingsRequest,
): Promise<readonly Return[]> {
  const { shopId, actor, gradings } = parseInput(gradingBatch, request);
  const wantsReturns = !request.withoutReturns;
  return store.takeOver({ shopId, actor, inspections: gradings, wantsReturns }, GRADING_KIND);
}

/** The type of a column in the input. Texts that may be long are sent as packed texts. */
type ColumnType = 'integer' | 'text' | 'text[]' | 'timestamptz' | 'packed text';

/** The table for one kind of inspection, and its entries in the timeline. */
interface InspectionTable {
  readonly table: 'line_dispositions' | 'line_conditions';
  /** The column with the id that the dispositions service gave. */
  readonly idColumn: string;
  /** The columns that are part of the details, with their types. These are all columns except the keys. */
  readonly columns: Readonly<Record<string, ColumnType>>;
  /** The kind of its timeline entries, and the columns whose previous values an entry has. */
  readonly entry: string;
  readonly previous: readonly string[];
}

/**
 * Returns a statement that stores those inspections that are newer than the stored ones. It adds timeline entries with
 * the previous values. It gives each return whose details changed its next revision.
 *
 * $1 is the shop, $2 the inspections as JSON, at most one for each line item, $3 the ids of their line items, $4 their
 * packed texts. The caller must have locked the returns. The statement returns the ids of the changed returns.
 */
function storeStatement(o: InspectionTable): string {
  const names = Object.keys(o.columns);
  const listed = names.join(', ');
  const columnsOf = (alias: string) => names.map((name) => `${alias}.${name}`).join(', ');
  const isPacked = (name: string) => o.columns[name] === 'packed text';
  const types = names.map((name) => `${name} ${isPacked(name) ? 'integer[]' : o.columns[name]}`);
  const unpacked = names.map((name) =>
    isPacked(name) ? `${packedText(name, '$4::bytea')} as ${name}` : name,
  );
  // Lines are found by ids in an array, because PostgreSQL cannot estimate the number of rows in JSON, and would read
  // whole tables for the join.
  return `
with input as materialized (
  select line_item_id, inspection_id, ${unpacked.join(', ')}, text, facts, actor_kind, actor_id, actor_name, actor_through
    from jsonb_to_recordset($2::jsonb) as g (line_item_id bigint, inspection_id bigint,
    ${types.join(', ')}, text text, facts jsonb, actor_kind text, actor_id text, actor_name text, actor_through text)
), previous as materialized (
  select k.* from ${o.table} k where k.shop_id = $1 and k.line_item_id = any($3::bigint[])
), applied as (
  insert into ${o.table} as k (shop_id, line_item_id, ${o.idColumn}, ${listed})
  select $1, line_item_id, inspection_id, ${listed} from input order by line_item_id
  on conflict (shop_id, line_item_id) do update
     set ${[o.idColumn, ...names].map((name) => `${name} = excluded.${name}`).join(', ')}
   where k.${o.idColumn} < excluded.${o.idColumn}
  returning k.line_item_id
), stored as materialized (
  select l.return_id, l.removed_at, g.*, ${previousFacts(o.previous)} as previous_facts,
         f.line_item_id is null or (${columnsOf('g')}) is distinct from (${columnsOf('f')}) as differs
    from applied a
    join input g on g.line_item_id = a.line_item_id
    join return_lines l
      on l.shop_id = $1 and l.id = a.line_item_id and l.id = any($3::bigint[])
    left join previous f on f.line_item_id = a.line_item_id
), noted as (
  insert into timeline (shop_id, return_id, kind, text, author, facts, actor_kind, actor_id, actor_name, actor_through)
  select $1, return_id, '${o.entry}', text, actor_name, facts || previous_facts, actor_kind, actor_id, actor_name,
    actor_through
    from stored order by line_item_id
)
update returns
   set ${NEXT_REVISION}
 where shop_id = $1 and id = any(array(select return_id from stored where differs and removed_at is null))
returning id`;
}

/** SQL for the previous values as facts. Empty values are left out. */
function previousFacts(columns: readonly string[]): string {
  const facts = columns.map((name) => {
    const value =
      name === 'inspected_at'
        ? `to_char(f.inspected_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
        : `nullif(f.${name}::text, '')`;
    return `'former_${name}', ${value}`;
  });
  return `jsonb_strip_nulls(jsonb_build_object(${facts.join(', ')}))`;
}
