import { z } from 'zod';
import { TOPICS, TRIGGERS, WEBHOOK_STATUSES } from '../vocabulary.ts';
import { choice, requiredText } from './fields.ts';

/**
 * Body of webhook create and update (interface: Webhook subscription). Topic and trigger are validated separately. The
 * webhooks service validates the address, after all other fields are valid.
 */
export const webhookBody = z
  .object({
    topic: choice(TOPICS).meta({ description: "Picks the payload's shape" }),
    trigger: choice(TRIGGERS).meta({
      description:
        'Picks the event. A topic gets only the triggers that its sample payloads name; any other pair is accepted and never delivers',
    }),
    url: requiredText({}).meta({
      description:
        'Absolute https address, without credentials and fragment, of a public host; at most 2048 characters. The port is 443, or one from 1024 up at which no other service usually listens (databases, caches, brokers)',
    }),
    status: choice(WEBHOOK_STATUSES)
      .nullish()
      .meta({ description: 'Kept when absent on update; `active` by default on create' }),
  })
  .meta({ id: 'WebhookBody' });
export type WebhookBody = z.infer<typeof webhookBody>;

const fields = {
  id: z.int().min(1),
  topic: z.enum(TOPICS),
  trigger: z.enum(TRIGGERS),
  url: z.string(),
  status: z.enum(WEBHOOK_STATUSES),
};

export const webhook = z.object(fields).meta({ id: 'Webhook' });
export type Webhook = z.infer<typeof webhook>;

export const createdWebhook = z
  .object({
    ...fields,
    secret: z.string().meta({
      description: 'Signing secret (Standard Webhooks): `whsec_` and Base64',
    }),
  })
  .meta({ id: 'CreatedWebhook' });
export type CreatedWebhook = z.infer<typeof createdWebhook>;

export const webhookList = z.array(webhook).meta({ description: 'Id ascending' });
