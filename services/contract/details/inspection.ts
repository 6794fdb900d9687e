import { z } from 'zod';
import {
  type Condition,
  type Disposition,
  DispositionOutcomeSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { means, nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull, word } from '../views/values.ts';
import { DISPOSITION_OUTCOMES } from '../vocabulary.ts';

// The results of inspections of a line item (interface: Condition, Disposition).

const GRADES = ['a', 'b', 'c', 'd'] as const;
const CATEGORY_NAMES = ['incorrect_item', 'missing', 'junk'] as const;

/** Since 2026-10 this is an object. Before, it was one of seven words. */
const conditionCategory = z
  .object({
    subject: means(z.string(), 'What was graded; `item` unless the grading named another subject'),
    title: means(z.string(), 'The category in words'),
    grade: means(
      z.enum(GRADES).nullable(),
      'Grade of a sellable item, `a` is the best; null for the other categories',
    ),
    category_name: means(
      z.enum(CATEGORY_NAMES).nullable(),
      'Name of a category without a grade; null for grades',
    ),
    category_parent: means(
      nullableText(),
      'Group of the category, as the grading named it; null without one',
    ),
  })
  .meta({ description: 'What grading found' });

/** The fields that gradings and assessments have. */
export const inspectionFields = {
  return_processor: means(
    nullableText(),
    'Contact address of the warehouse partner that inspected the item; null without one',
  ),
  note: means(nullableText(), 'Free text of the inspection; null without one'),
  inspected_at: means(time(), 'When the item was inspected'),
};

/** The description of `condition_category`, for every version. */
export const CATEGORY_TEXT =
  'Category of the newest grading; null for an item with images that was never graded';

export const condition = z
  .object({
    description: means(nullableText(), 'Free text of the grading about the item; null without one'),
    condition_category: means(conditionCategory.nullable(), CATEGORY_TEXT),
    ...inspectionFields,
    images: means(z.array(z.string()), 'Links to images: of the grading, then of the assessment'),
  })
  .meta({ id: 'Condition' });
export type ConditionObject = z.infer<typeof condition>;

export const lineDisposition = z
  .object({
    disposition_outcome: means(
      z.enum(DISPOSITION_OUTCOMES).nullable(),
      'What becomes of the goods after the inspection',
    ),
    ...inspectionFields,
  })
  .meta({ id: 'LineDisposition' });

/**
 * The condition in the newest form. Its category is null for a line item that was assessed with images and never
 * graded.
 */
export function conditionView(condition: Condition): ConditionObject {
  const grade = GRADES.find((value) => value === condition.grade) ?? null;
  const name = CATEGORY_NAMES.find((value) => value === condition.categoryName) ?? null;
  const graded = grade !== null || name !== null;
  return {
    description: textOrNull(condition.description),
    condition_category: graded
      ? {
          subject: condition.subject,
          title: condition.title,
          grade,
          category_name: name,
          category_parent: condition.categoryParent ?? null,
        }
      : null,
    ...inspectionView(condition),
    images: condition.images,
  };
}

export function dispositionView(disposition: Disposition): z.infer<typeof lineDisposition> {
  return {
    disposition_outcome: word(DispositionOutcomeSchema, disposition.outcome, DISPOSITION_OUTCOMES),
    ...inspectionView(disposition),
  };
}

function inspectionView(of: Condition | Disposition) {
  return {
    return_processor: of.returnProcessor ?? null,
    note: of.note ?? null,
    inspected_at: iso(of.inspectedAt),
  };
}
