import { z } from 'zod';
import { TRIGGERS } from '../vocabulary.ts';
import { choice } from './fields.ts';

/**
 * Body of a test event: an addition to the interface. The webhooks service checks whether the topic delivers the
 * trigger.
 */
export const webhookTestBody = z
  .object({
    trigger: choice(TRIGGERS).nullish().meta({
      description:
        "The event to send: any trigger that the webhook's topic delivers; the webhook's own when absent",
    }),
  })
  .meta({ id: 'WebhookTestBody' });
export type WebhookTestBody = z.infer<typeof webhookTestBody>;
