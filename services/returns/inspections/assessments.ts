import { z } from 'zod';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ApplyAssessmentsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { callerShape, id, parseInput } from '../../platform/input.ts';
import { dispositionText } from '../store/texts.ts';
import { images, inspectionShape, inspections, inspector } from './inspection-input.ts';
import type { InspectionKind, InspectionStore } from './inspection-store.ts';
import { storeStatement } from './store-statement.ts';

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

const batch = z.object({ ...callerShape, assessments: inspections(assessment) });

const KIND: InspectionKind<Assessment> = {
  statement: {
    name: 'store-assessments',
    text: storeStatement({
      table: 'line_dispositions',
      idColumn: 'assessment_id',
      columns: {
        outcome: 'text',
        return_processor: 'text',
        note: 'packed text',
        inspected_at: 'timestamptz',
        images: 'text[]',
      },
      entry: 'line.assessed',
      previous: ['outcome', 'return_processor', 'note', 'inspected_at'],
    }),
  },
  idOf: (one) => one.assessmentId,
  rowOf: ({ disposition, images: pictures }, texts) => ({
    outcome: dispositionText.toText(disposition.outcome),
    return_processor: disposition.returnProcessor,
    note: texts.add(disposition.note),
    inspected_at: disposition.inspectedAt,
    images: pictures,
  }),
  entryOf: ({ lineItemId, disposition }) => {
    const outcome = dispositionText.toText(disposition.outcome);
    const text = `A line was assessed: ${outcome.replaceAll('_', ' ')}`;
    return { text, facts: { line: `${lineItemId}`, outcome } };
  },
};

/**
 * Stores assessments of the dispositions service; see {@link InspectionStore.takeOver}. In the details, their images
 * are in the condition of the line item, after the images of its grading: `conditionOf` in `read-inspection.ts`.
 *
 * @throws DomainError INVALID_ARGUMENT; LINE_ITEM_NOT_FOUND when the shop has no such line item; RETURN_TOO_LARGE.
 */
export async function applyAssessments(
  store: InspectionStore,
  request: ApplyAssessmentsRequest,
): Promise<readonly Return[]> {
  const { shopId, actor, assessments } = parseInput(batch, request);
  const wantsReturns = !request.withoutReturns;
  return store.takeOver({ shopId, actor, inspections: assessments, wantsReturns }, KIND);
}
