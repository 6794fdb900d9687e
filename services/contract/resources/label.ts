import { z } from 'zod';
import { label } from '../details/label.ts';
import { LABEL_LINES_MAX, LABEL_URL_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import { LABEL_STATUSES } from '../vocabulary.ts';
import {
  id as bodyId,
  choice,
  dateTime,
  decimal,
  ownBound,
  requiredText,
  text,
  typed,
} from './fields.ts';
import { id, means } from './response-fields.ts';

/** Labels that a label provider records: an addition to the interface. */

const trackingNumber = () => text({ max: SHORT_TEXT_MAX, own: true });

export const labelBody = z
  .object({
    carrier: requiredText({ max: SHORT_TEXT_MAX, own: true }).meta({
      description: 'Name of the carrier, for people',
    }),
    tracking_number: trackingNumber()
      .nullish()
      .meta({ description: "The carrier's number of the parcel; none yet when absent" }),
    url: text({ max: LABEL_URL_MAX, own: true })
      .nullish()
      .meta({ description: 'Link to the file of the label; none when absent' }),
    rate: decimal().nullish().meta({
      description:
        "What the carrier bills, a decimal number in the shop's currency; unknown when absent",
    }),
    line_item_ids: z
      .array(bodyId(), { error: typed('a list') })
      .max(LABEL_LINES_MAX, { error: `must have at most ${LABEL_LINES_MAX} entries` })
      .meta(ownBound)
      .nullish()
      .meta({
        description: 'The line items in the parcel; all of the return when absent or empty',
      }),
    created_at: dateTime()
      .nullish()
      .meta({ description: 'When the label was bought, not in the future; now when absent' }),
  })
  .meta({ id: 'LabelBody' });
export type LabelBody = z.infer<typeof labelBody>;

export const labelUpdateBody = z
  .object({
    status: choice(LABEL_STATUSES).meta({
      description: 'Where the parcel is. After `delivered` no update changes it',
    }),
    occurred_at: dateTime().meta({
      description: 'When it happened, as the carrier says; not in the future',
    }),
    tracking_number: trackingNumber()
      .nullish()
      .meta({ description: 'Unchanged when absent or empty' }),
  })
  .meta({ id: 'LabelUpdateBody' });
export type LabelUpdateBody = z.infer<typeof labelUpdateBody>;

/** A label as in return details, with its own id for updates and the id of its return. */
export const recordedLabel = z
  .object({
    id: means(id(), 'Identifier by which the label is updated'),
    return_id: means(id(), 'The return whose goods it ships'),
    ...label.shape,
  })
  .meta({ id: 'RecordedLabel' });
export type RecordedLabel = z.infer<typeof recordedLabel>;
