import { z } from 'zod';
import {
  DISPOSITION_ITEMS_MAX,
  IMAGE_MAX,
  IMAGES_PER_ITEM_MAX,
  NOTE_MAX,
  RETURN_PROCESSOR_MAX,
} from '../limits.ts';
import { DISPOSITION_OUTCOMES } from '../vocabulary.ts';
import { choice, dateTime, id, ownBound, text, typed } from './fields.ts';

const item = z
  .object(
    {
      line_item_id: id(),
      disposition_outcome: choice(DISPOSITION_OUTCOMES)
        .nullish()
        .meta({ description: "The shop's default outcome when absent" }),
      return_processor: text({ max: RETURN_PROCESSOR_MAX }).nullish(),
      note: text({ max: NOTE_MAX }).nullish(),
      inspected_at: dateTime().nullish().meta({ description: 'Now when absent' }),
      images: z
        .array(text({ max: IMAGE_MAX }), { error: typed('a list') })
        .max(IMAGES_PER_ITEM_MAX, { error: `must have at most ${IMAGES_PER_ITEM_MAX} entries` })
        .meta(ownBound)
        .nullish(),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'DispositionInput' });

/** Body of assess dispositions (interface: Disposition item). Each line item at most once. */
export const assessBody = z
  .object({
    items: z
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
      }),
  })
  .meta({ id: 'AssessBody' });
export type AssessBody = z.infer<typeof assessBody>;

/** One recorded disposition, in the order of the request. */
export const disposition = z
  .object({
    line_item_id: z.int().min(1),
    disposition_outcome: z.enum(DISPOSITION_OUTCOMES),
    return_processor: z.string().nullable(),
    note: z.string().nullable(),
    inspected_at: z.string().nullable().meta({ format: 'date-time' }),
  })
  .meta({ id: 'Disposition' });
export type DispositionEntry = z.infer<typeof disposition>;

export const dispositionList = z.array(disposition).max(DISPOSITION_ITEMS_MAX);
