import { z } from 'zod';
import {
  type Label,
  LabelStatusSchema,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull, word } from '../views/values.ts';
import { LABEL_STATUSES } from '../vocabulary.ts';

/** Labels of return details, oldest first. */

export const label = z
  .object({
    status: z.enum(LABEL_STATUSES).nullable(),
    updated_at: time(),
    url: nullableText(),
    rate: z.int().nullable().meta({ description: "Minor units of the shop's currency" }),
    carrier: nullableText(),
    tracking_number: nullableText(),
    line_items: z.array(z.int()),
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
