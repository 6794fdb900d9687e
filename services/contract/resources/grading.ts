import { z } from 'zod';
import { condition } from '../details/line-item.ts';
import { DISPOSITION_ITEMS_MAX, NOTE_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import { CONDITION_CATEGORIES } from '../vocabulary.ts';
import { choice, ownBound, text, typed } from './fields.ts';
import { findingFields, itemsOf } from './finding.ts';

/** Gradings of line items: an addition to the interface. */

const short = () => text({ max: SHORT_TEXT_MAX, own: true }).nullish();

const item = z
  .object(
    {
      ...findingFields,
      category: choice(CONDITION_CATEGORIES),
      subject: short().meta({ description: '`item` when absent' }),
      title: short().meta({ description: 'The category in words when absent' }),
      category_parent: short(),
      description: text({ max: NOTE_MAX, own: true }).nullish(),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'GradingInput' });

/** Body of grade items. Each line item at most once. */
export const gradeBody = z
  .object({ items: itemsOf(item).meta(ownBound) })
  .meta({ id: 'GradeBody' });
export type GradeBody = z.infer<typeof gradeBody>;

/** The condition of each line item as return details show it, in the order of the request. */
export const gradingList = z
  .array(z.object({ line_item_id: z.int().min(1), condition }).meta({ id: 'Grading' }))
  .max(DISPOSITION_ITEMS_MAX)
  .meta(ownBound);
export type GradingEntry = z.infer<typeof gradingList>[number];
