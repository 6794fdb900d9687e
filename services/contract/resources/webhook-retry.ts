import { z } from 'zod';
import { means } from './response-fields.ts';

/** The result of a retry of a webhook's waiting deliveries: an addition to the interface. */
export const webhookRetry = z
  .object({
    deliveries: means(
      z.int().min(0),
      'Number of deliveries whose next attempt was moved to now, up to 100,000. Those that were due already, or are being sent, are not among them',
    ),
    more: means(
      z.boolean(),
      'Whether more may wait for a later attempt. Then call again with another `Idempotency-Key`',
    ),
    waiting: means(
      z.int().min(0),
      'Number of deliveries of the webhook that are not delivered yet, after the call: these are sent now. At most 1,000 are counted',
    ),
  })
  .meta({ id: 'WebhookRetry' });
export type WebhookRetryObject = z.infer<typeof webhookRetry>;
