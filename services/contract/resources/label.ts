import { z } from 'zod';
import { label } from '../details/label.ts';
import { LABEL_LINES_MAX, LABEL_URL_MAX, SHORT_TEXT_MAX } from '../limits.ts';
import { LABEL_STATUSES } from '../vocabulary.ts';
import { choice, dateTime, decimal, id, ownBound, requiredText, text, typed } from './fields.ts';

/** Labels that a label provider records: an addition to the interface. */

const trackingNumber = () => text({ max: SHORT_TEXT_MAX, own: true });

export const labelBody = z
  .object({
    carrier: requiredText({ max: SHORT_TEXT_MAX, own: true }),
    tracking_number: trackingNumber().nullish(),
    url: text({ max: LABEL_URL_MAX, own: true })
      .nullish()
      .meta({ description: 'Link to the label' }),
    rate: decimal()
      .nullish()
      .meta({ description: "The carrier's bill in the shop's currency, a decimal amount" }),
    line_item_ids: z
      .array(id(), { error: typed('a list') })
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
    status: choice(LABEL_STATUSES),
    occurred_at: dateTime().meta({
      description: 'When it happened, as the carrier says; not in the future',
    }),
    tracking_number: trackingNumber()
      .nullish()
      .meta({ description: 'Unchanged when absent or empty' }),
  })
  .meta({ id: 'LabelUpdateBody' });
export type LabelUpdateBody = z.infer<typeof labelUpdateBody>;

/** A label as return details show it, with the ids by which it is updated and read. */
export const recordedLabel = z
  .object({
    id: z.int().min(1).meta({ description: 'For updates of the label' }),
    return_id: z.int().min(1),
    ...label.shape,
  })
  .meta({ id: 'RecordedLabel' });
export type RecordedLabel = z.infer<typeof recordedLabel>;
