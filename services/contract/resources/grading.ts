import { z } from 'zod';
import { condition } from '../details/inspection.ts';
import { DISPOSITION_ITEMS_MAX, NOTE_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import { CONDITION_CATEGORIES } from '../vocabulary.ts';
import { choice, ownBound, text, typed } from './fields.ts';
import { findingFields, itemsOf } from './finding.ts';
import { id, means } from './response-fields.ts';

/** Gradings of line items: an addition to the interface. */

const short = () => text({ max: SHORT_TEXT_MAX, own: true }).nullish();

const item = z
  .object(
    {
      ...findingFields,
      category: choice(CONDITION_CATEGORIES).meta({
        description: 'What grading found: a grade of a sellable item, or why it has none',
      }),
      subject: short().meta({ description: 'What was graded; `item` when absent' }),
      title: short().meta({
        description: 'Title of the category for people; the category in words when absent',
      }),
      category_parent: short().meta({ description: 'Group of the category; none when absent' }),
      description: text({ max: NOTE_MAX, own: true })
        .nullish()
        .meta({ description: 'Free text about the item, beside the note; none when absent' }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'GradingInput' });

/** Body of grade items. Each line item may occur once. */
export const gradeBody = z
  .object({
    items: itemsOf(item).meta(ownBound).meta({
      description:
        'Line items of any returns of the shop, each at most once. All or none is recorded',
    }),
  })
  .meta({ id: 'GradeBody' });
export type GradeBody = z.infer<typeof gradeBody>;

/** The response of grade items: the condition of each line item, as in return details, in the order of the request. */
export const gradingList = z
  .array(
    z
      .object({
        line_item_id: means(id(), 'The line item that was graded'),
        condition: means(condition, 'The condition as return details have it from now on'),
      })
      .meta({ id: 'Grading' }),
  )
  .max(DISPOSITION_ITEMS_MAX)
  .meta(ownBound);
export type GradingEntry = z.infer<typeof gradingList>[number];
