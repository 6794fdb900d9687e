import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ApplyGradingsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { NOTE_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { callerShape, id, parseInput, requiredText, text } from '../../platform/input.ts';
import { images, inspectionShape, inspections, inspector } from './inspection-input.ts';
import type { InspectionKind, InspectionStore } from './inspection-store.ts';
import { storeStatement } from './store-statement.ts';

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

const batch = z.object({ ...callerShape, gradings: inspections(grading) });

const KIND: InspectionKind<Grading> = {
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
  const { shopId, actor, gradings } = parseInput(batch, request);
  const wantsReturns = !request.withoutReturns;
  return store.takeOver({ shopId, actor, inspections: gradings, wantsReturns }, KIND);
}
