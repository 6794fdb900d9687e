import type pg from 'pg';
import { z } from 'zod';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ApplyAssessmentsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { dispositionText } from '../store/texts.ts';
import type { NewTimelineEntry } from '../store/timeline-store.ts';
import {
  factsOf,
  images,
  inspectionShape,
  inspector,
  MAX_INSPECTIONS,
} from './inspection-input.ts';
import { type AppliedRow, takeOver } from './take-over.ts';

const assessment = z.object({
  assessmentId: id,
  lineItemId: id,
  disposition: z.object(
    {
      outcome: z
        .enum(DispositionOutcome, 'is unknown')
        .refine((value) => value !== DispositionOutcome.UNSPECIFIED, 'is required'),
      ...inspectionShape,
    },
    'is required',
  ),
  images,
  actor: inspector,
});
type Assessment = z.output<typeof assessment>;

const batch = z.object({
  ...callerShape,
  assessments: z
    .array(assessment)
    .min(1, 'must hold at least one')
    .max(MAX_INSPECTIONS, `must hold at most ${MAX_INSPECTIONS}`),
});

/**
 * Takes over assessments from the dispositions service; see {@link takeOver}.
 *
 * @throws DomainError INVALID_ARGUMENT; LINE_ITEM_NOT_FOUND when a line is not the shop's.
 */
export async function applyAssessments(
  pool: pg.Pool,
  request: ApplyAssessmentsRequest,
): Promise<readonly Return[]> {
  const { shopId, actor, assessments } = parseInput(batch, request);
  return takeOver(
    pool,
    { shopId, actor, inspections: assessments },
    { idOf: (one) => one.assessmentId, store: storeAssessments, entryOf },
  );
}

interface FormerRow extends AppliedRow {
  readonly former_outcome: string | null;
  readonly former_return_processor: string | null;
  readonly former_note: string | null;
  readonly former_inspected_at: Date | null;
}

async function storeAssessments(
  tx: Queryable,
  shopId: bigint,
  assessments: readonly Assessment[],
): Promise<FormerRow[]> {
  const rows = assessments.map((one) => ({
    line_item_id: one.lineItemId.toString(),
    assessment_id: one.assessmentId.toString(),
    outcome: dispositionText.toText(one.disposition.outcome),
    return_processor: one.disposition.returnProcessor ?? null,
    note: one.disposition.note ?? null,
    inspected_at: one.disposition.inspectedAt ?? null,
    images: one.images,
  }));
  const { rows: applied } = await tx.query<FormerRow>({
    name: 'store-assessments',
    // By ids: how many rows come out of JSON is unknown, and whole tables would be read to meet them.
    text: `with given as (
       select * from jsonb_populate_recordset(null::line_dispositions, $2::jsonb)
     ), former as (
       select d.* from line_dispositions d
        where d.shop_id = $1 and d.line_item_id = any($3::bigint[])
     ), applied as (
       insert into line_dispositions as d (shop_id, line_item_id, assessment_id, outcome,
              return_processor, note, inspected_at, images)
       select $1, line_item_id, assessment_id, outcome, return_processor, note, inspected_at, images
         from given
       on conflict (shop_id, line_item_id) do update
          set assessment_id = excluded.assessment_id, outcome = excluded.outcome,
              return_processor = excluded.return_processor, note = excluded.note,
              inspected_at = excluded.inspected_at, images = excluded.images
        where d.assessment_id < excluded.assessment_id
       returning d.line_item_id
     )
     select a.line_item_id, l.return_id, f.outcome as former_outcome,
            f.return_processor as former_return_processor, f.note as former_note,
            f.inspected_at as former_inspected_at
       from applied a
       join return_lines l
         on l.shop_id = $1 and l.id = a.line_item_id and l.id = any($3::bigint[])
       left join former f on f.line_item_id = a.line_item_id
      order by a.line_item_id`,
    values: [shopId, JSON.stringify(rows), assessments.map((one) => one.lineItemId)],
  });
  return applied;
}

function entryOf(one: Assessment, row: FormerRow): NewTimelineEntry {
  const outcome = dispositionText.toText(one.disposition.outcome);
  return {
    returnId: row.return_id,
    kind: 'line.assessed',
    text: `A line was assessed: ${outcome.replaceAll('_', ' ')}`,
    facts: factsOf({
      line: `${one.lineItemId}`,
      outcome,
      former_outcome: row.former_outcome,
      former_return_processor: row.former_return_processor,
      former_note: row.former_note,
      former_inspected_at: row.former_inspected_at?.toISOString(),
    }),
    ...(one.actor && { actor: one.actor }),
  };
}
