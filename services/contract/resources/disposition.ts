import { z } from 'zod';
import { DISPOSITION_ITEMS_MAX } from '../limits.ts';
import { DISPOSITION_OUTCOMES } from '../vocabulary.ts';
import { choice, typed } from './fields.ts';
import { findingFields, itemsOf } from './finding.ts';

const item = z
  .object(
    {
      ...findingFields,
      disposition_outcome: choice(DISPOSITION_OUTCOMES)
        .nullish()
        .meta({ description: "The shop's default outcome when absent" }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'DispositionInput' });

/** Body of assess dispositions (interface: Disposition item). Each line item at most once. */
export const assessBody = z.object({ items: itemsOf(item) }).meta({ id: 'AssessBody' });
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
