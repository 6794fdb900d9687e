import { z } from 'zod';
import {
  DISPOSITION_ITEMS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
} from '../limits.ts';
import { dateTime, id, ownBound, text, typed } from './fields.ts';

/** The fields that assessments and gradings of line items share. */

export const findingFields = {
  line_item_id: id().meta({ description: '`line_item_id` of a line item in return details' }),
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
export function itemsOf<S extends z.ZodType<{ line_item_id: number }>>(item: S) {
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
