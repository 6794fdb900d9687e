import { z } from 'zod';
import { inspectionFields } from '../details/inspection.ts';
import { DISPOSITION_ITEMS_MAX } from '../limits.ts';
import { DISPOSITION_OUTCOMES } from '../vocabulary.ts';
import { choice, typed } from './fields.ts';
import { findingFields, itemsOf } from './finding.ts';
import { id, means } from './response-fields.ts';

const item = z
  .object(
    {
      // line_item_id, inspected_at, note and more, as for gradings.
      ...findingFields,
      disposition_outcome: choice(DISPOSITION_OUTCOMES).nullish().meta({
        description:
          "What becomes of the goods. When absent: as assessed before, otherwise the shop's default",
      }),
    },
    { error: typed('an object') },
  )
  .meta({ id: 'DispositionInput' });

/** Body of assess dispositions (interface: Disposition item). Each line item may occur once. */
export const assessBody = z
  .object({
    items: itemsOf(item).meta({
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
