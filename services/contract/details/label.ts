import { z } from 'zod';
import {
  type Label,
  LabelStatusSchema,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { means, nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull, word } from '../views/values.ts';
import { LABEL_STATUSES } from '../vocabulary.ts';

/** A label in return details. The labels are listed oldest first. */

export const label = z
  .object({
    status: means(z.enum(LABEL_STATUSES).nullable(), 'Where the parcel is; `delivered` is final'),
    updated_at: means(time(), 'When the carrier last changed the status or the tracking number'),
    url: means(nullableText(), 'Link to the label; null without one'),
    rate: means(
      z.int().nullable(),
      "What the carrier bills, in minor units of the shop's currency; null when unknown",
    ),
    carrier: means(nullableText(), 'Name of the carrier'),
    tracking_number: means(nullableText(), 'Tracking number; null when there is none yet'),
    line_items: means(z.array(z.int()), '`line_item_id` of each line item in the parcel'),
  })
  .meta({ id: 'Label' });

export function labelsView(ret: Return): z.infer<typeof label>[] {
  return ret.labels.map(labelView);
}

export function labelView(one: Label): z.infer<typeof label> {
  return {
    status: word(LabelStatusSchema, one.status, LABEL_STATUSES),
    updated_at: iso(one.updatedAt),
    url: textOrNull(one.url),
    rate: one.rate === '' ? null : Number(one.rateMinor),
    carrier: textOrNull(one.carrier),
    tracking_number: textOrNull(one.trackingNumber),
    line_items: one.lineItemIds.map(Number),
  };
}
