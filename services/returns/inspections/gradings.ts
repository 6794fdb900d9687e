import type pg from 'pg';
import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ApplyGradingsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { NOTE_MAX } from '../../contract/limits.ts';
import { callerShape, id, parseInput, requiredText, text } from '../../platform/input.ts';
import type { Queryable } from '../../platform/postgres.ts';
import type { NewTimelineEntry } from '../store/timeline-store.ts';
import {
  factsOf,
  images,
  inspectionShape,
  inspector,
  MAX_INSPECTIONS,
} from './inspection-input.ts';
import { type AppliedRow, takeOver } from './take-over.ts';

const GRADES = ['a', 'b', 'c', 'd'] as const;
const CATEGORIES = ['incorrect_item', 'missing', 'junk'] as const;

const grading = z.object({
  gradingId: id,
  lineItemId: id,
  condition: z
    .object(
      {
        description: text(NOTE_MAX),
        subject: requiredText(191),
        title: requiredText(191),
        grade: z.enum(GRADES, 'must be a, b, c or d').optional(),
        categoryName: z.enum(CATEGORIES, `must be one of ${CATEGORIES.join(', ')}`).optional(),
        categoryParent: text(191).optional(),
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

const batch = z.object({
  ...callerShape,
  gradings: z
    .array(grading)
    .min(1, 'must hold at least one')
    .max(MAX_INSPECTIONS, `must hold at most ${MAX_INSPECTIONS}`),
});

/**
 * Takes over gradings from the dispositions service; see {@link takeOver}.
 *
 * @throws DomainError INVALID_ARGUMENT; LINE_ITEM_NOT_FOUND when a line is not the shop's.
 */
export async function applyGradings(
  pool: pg.Pool,
  request: ApplyGradingsRequest,
): Promise<readonly Return[]> {
  const { shopId, actor, gradings } = parseInput(batch, request);
  return takeOver(
    pool,
    { shopId, actor, inspections: gradings },
    { idOf: (one) => one.gradingId, store: storeGradings, entryOf },
  );
}

interface FormerRow extends AppliedRow {
  readonly former_title: string | null;
  readonly former_description: string | null;
  readonly former_note: string | null;
  readonly former_inspected_at: Date | null;
}

async function storeGradings(
  tx: Queryable,
  shopId: bigint,
  gradings: readonly Grading[],
): Promise<FormerRow[]> {
  const rows = gradings.map(({ lineItemId, gradingId, condition }) => ({
    line_item_id: lineItemId.toString(),
    grading_id: gradingId.toString(),
    description: condition.description,
    subject: condition.subject,
    title: condition.title,
    grade: condition.grade ?? null,
    category_name: condition.categoryName ?? null,
    category_parent: condition.categoryParent ?? null,
    return_processor: condition.returnProcessor ?? null,
    note: condition.note ?? null,
    inspected_at: condition.inspectedAt ?? null,
    images: condition.images,
  }));
  const { rows: applied } = await tx.query<FormerRow>({
    name: 'store-gradings',
    // By ids: how many rows come out of JSON is unknown, and whole tables would be read to meet them.
    text: `with given as (
       select * from jsonb_populate_recordset(null::line_conditions, $2::jsonb)
     ), former as (
       select c.* from line_conditions c
        where c.shop_id = $1 and c.line_item_id = any($3::bigint[])
     ), applied as (
       insert into line_conditions as c (shop_id, line_item_id, grading_id, description, subject,
              title, grade, category_name, category_parent, return_processor, note, inspected_at,
              images)
       select $1, line_item_id, grading_id, description, subject, title, grade, category_name,
              category_parent, return_processor, note, inspected_at, images
         from given
       on conflict (shop_id, line_item_id) do update
          set grading_id = excluded.grading_id, description = excluded.description,
              subject = excluded.subject, title = excluded.title, grade = excluded.grade,
              category_name = excluded.category_name, category_parent = excluded.category_parent,
              return_processor = excluded.return_processor, note = excluded.note,
              inspected_at = excluded.inspected_at, images = excluded.images
        where c.grading_id < excluded.grading_id
       returning c.line_item_id
     )
     select a.line_item_id, l.return_id, f.title as former_title,
            f.description as former_description, f.note as former_note,
            f.inspected_at as former_inspected_at
       from applied a
       join return_lines l
         on l.shop_id = $1 and l.id = a.line_item_id and l.id = any($3::bigint[])
       left join former f on f.line_item_id = a.line_item_id
      order by a.line_item_id`,
    values: [shopId, JSON.stringify(rows), gradings.map((one) => one.lineItemId)],
  });
  return applied;
}

function entryOf(one: Grading, row: FormerRow): NewTimelineEntry {
  return {
    returnId: row.return_id,
    kind: 'line.graded',
    text: `A line was graded: ${one.condition.title}`,
    facts: factsOf({
      line: `${one.lineItemId}`,
      title: one.condition.title,
      former_title: row.former_title,
      former_description: row.former_description,
      former_note: row.former_note,
      former_inspected_at: row.former_inspected_at?.toISOString(),
    }),
    ...(one.actor && { actor: one.actor }),
  };
}
