import { z } from 'zod';
import { means } from './response-fields.ts';

/** What a retry of the waiting deliveries of a webhook did: an addition to the interface. */
export const webhookRetry = z
  .object({
    deliveries: means(
      z.int().min(0),
      'Number of deliveries that waited for a later attempt and are due now, up to 100,000',
    ),
    more: means(
      z.boolean(),
      'Whether more may wait for a later attempt. Then call again with another `Idempotency-Key`',
    ),
  })
  .meta({ id: 'WebhookRetry' });
export type WebhookRetryObject = z.infer<typeof webhookRetry>;
