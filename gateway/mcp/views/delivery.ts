import { z } from 'zod';
import type { Delivery } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivery } from '../../../services/contract/resources/delivery.ts';
import { deliveryView } from '../../../services/contract/views/delivery.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { UNTRUSTED } from '../fields.ts';
import { described, undescribed } from '../result-schema.ts';

const { attempts: _, ...fields } = delivery.shape;
const attempt = delivery.shape.attempts.element.shape;

/** One delivery attempt, with the receiver's response. */
const attemptOutput = z.strictObject({
  ...attempt,
  url: z.string().describe('The address that the attempt was sent to'),
  untrusted_data: z
    .strictObject({
      response_excerpt: z.string().nullable().describe('The first KiB of the response'),
    })
    .describe(UNTRUSTED),
});

export const deliveryOutput = z.strictObject({
  ...undescribed(fields),
  webhook_id: z.int(),
  attempt_count: z.int().describe('Counted up to 50'),
  last_status: z.int().nullable().describe('null without a response'),
  last_error: z.string().nullable().describe('null on success'),
  attempts: z
    .array(
      described(
        'Status, error and times of an attempt, and the response in untrusted_data',
        attemptOutput,
      ),
    )
    .optional()
    .describe('Only with detail full; oldest first'),
});

export function deliveryOutputView(
  one: Delivery,
  withAttempts: boolean,
): z.output<typeof deliveryOutput> {
  const { attempts, ...rest } = deliveryView(one);
  const last = attempts.at(-1);
  return {
    ...rest,
    webhook_id: Number(one.subscriptionId),
    attempt_count: attempts.length,
    last_status: last?.status ?? null,
    last_error: last?.error ?? null,
    ...(withAttempts && {
      attempts: attempts.map((tried, at) => ({
        ...tried,
        url: one.attempts[at]?.url ?? '',
        untrusted_data: { response_excerpt: textOrNull(one.attempts[at]?.responseExcerpt) },
      })),
    }),
  };
}
