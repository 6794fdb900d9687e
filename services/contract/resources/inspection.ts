import { z } from 'zod';
import { condition, inspectionFields } from '../details/inspection.ts';
import {
  DISPOSITION_ITEMS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
  SHORT_TEXT_MAX,
} from '../limits.ts';
import { CONDITION_CATEGORIES, DISPOSITION_OUTCOMES } from '../vocabulary.ts';
import { choice, dateTime, ownBound, id as requestId, text, typed, units } from './fields.ts';
import { id, means } from './response-fields.ts';

/** The fields that assessments and gradings of line items share. */

const findingFields = {
  line_item_id: requestId().meta({
    description: '`line_item_id` of a line item in return details',
  }),
  return_processor: text({ max: RETURN_PROCESSOR_MAX }).nullish().meta({
    description:
      'Contact address of the warehouse partner that inspected the item; none when absent',
  }),
  note: text({ max: NOTE_MAX })
    .nullish()
    .meta({ description: 'Free text on the state of the item; none when absent' }),
  inspected_at: dateTime()
    .nullish()
    .meta({ description: 'When the item was inspected, an RFC 3339 time; now when absent' }),
  images: z
    .array(text({ max: IMAGE_MAX }), { error: typed('a list') })
    .max(IMAGES_PER_ITEM_MAX, { error: `must have at most ${IMAGES_PER_ITEM_MAX} entries` })
    .meta(ownBound)
    .nullish()
    .meta({ description: 'Links to images of the item. They are stored and never fetched' }),
};

/** A list of 1 to 30 items. Each line item may occur once. */
function itemsOf<S extends z.ZodType<{ line_item_id: number }>>(item: S) {
  return z
    .array(item, { error: typed('a list') })
    .min(1, { error: 'must have at least 1 entry' })
    .max(DISPOSITION_ITEMS_MAX, { error: `must have at most ${DISPOSITION_ITEMS_MAX} entries` })
    .superRefine((items, context) => {
      const seen = new Set<number>();
      for (const [index, { line_item_id }] of items.entries()) {
        if (seen.has(line_item_id)) {
          const path = [index, 'line_item_id'];
          context.addIssue({ code: 'custom', path, message: 'must not name a line item twice' });
        }
        seen.add(line_item_id);
      }
    });
}

/** Gradings of line items: an addition to the interface. */

const short = () => text({ max: SHORT_TEXT_MAX, own: true }).nullish();

const gradingItem = z
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
    items: itemsOf(gradingItem).meta(ownBound).meta({
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

const assessItem = z
  .object(
    {
      // line_item_id, inspected_at, note and more, as for gradings.
      ...findingFields,
      disposition_outcome: choice(DISPOSITION_OUTCOMES).nullish().meta({
        description:
          "What becomes of the goods. When absent: as assessed before, otherwise the shop's default",
      }),
      quantity: units(1).nullish().meta({
        description:
          'How many units of the line item it is about; all when absent. Not with the outcome `missing`',
      }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'DispositionInput' });

/** Body of assess dispositions (interface: Disposition item). Each line item may occur once. */
export const assessBody = z
  .object({
    items: itemsOf(assessItem).meta({
      description:
        'Line items of any returns of the shop, each at most once. All or none is recorded',
    }),
  })
  .meta({ id: 'AssessBody' });
export type AssessBody = z.infer<typeof assessBody>;

/** One recorded disposition. The list has them in the order of the request. */
export const disposition = z
  .object({
    line_item_id: means(id(), 'The line item that was assessed'),
    disposition_outcome: means(z.enum(DISPOSITION_OUTCOMES), 'What becomes of the goods'),
    ...inspectionFields,
  })
  .meta({ id: 'Disposition' });
export type DispositionEntry = z.infer<typeof disposition>;

export const dispositionList = z.array(disposition).max(DISPOSITION_ITEMS_MAX);
