import { z } from 'zod';
import { SECRET_OVERLAP_HOURS_DEFAULT, SECRET_OVERLAP_HOURS_MAX } from '../limits.ts';
import {
  TOPICS,
  TRIGGERS,
  WEBHOOK_HEALTH,
  WEBHOOK_STATUSES,
  WEBHOOK_WARNINGS,
} from '../vocabulary.ts';
import { choice, ownBound, requiredText, typed } from './fields.ts';
import { id, means, nullableText, requiredTime, time } from './response-fields.ts';

/**
 * Body of create and update webhook (interface: Webhook subscription). Topic and trigger are validated independently.
 * The webhooks service validates the address, after all other fields are valid.
 */
export const webhookBody = z
  .object({
    topic: choice(TOPICS).meta({ description: 'Picks the shape of the payload' }),
    trigger: choice(TRIGGERS).meta({
      description:
        'Picks the event. A topic gets only the triggers that its sample payloads name; any other pair is accepted and never delivers',
    }),
    url: requiredText({}).meta({
      description:
        'Where events are sent: an absolute https address, without credentials and fragment, of a public host; at most 2048 characters. The port is 443, or one from 1024 up at which no other service usually listens (databases, caches, brokers)',
    }),
    status: choice(WEBHOOK_STATUSES)
      .nullish()
      .meta({ description: 'Kept when absent on update; `active` by default on create' }),
  })
  .meta({ id: 'WebhookBody' });
export type WebhookBody = z.infer<typeof webhookBody>;

const fields = {
  id: means(id(), 'Identifier of the webhook'),
  topic: means(z.enum(TOPICS), 'Picks the shape of the payload'),
  trigger: means(z.enum(TRIGGERS), 'Picks the events that are sent'),
  url: means(z.string(), 'Where events are sent'),
  status: means(
    z.enum(WEBHOOK_STATUSES),
    '`inactive`: nothing is sent, and waiting deliveries are held for up to 30 days',
  ),
};

/** The fields of a subscription in the interface. */
export const webhookFields = z.object(fields);
export type WebhookFields = z.infer<typeof webhookFields>;

const delivers = z.boolean().meta({
  description: 'False when the topic never delivers the trigger: then nothing is sent',
});

/** The header with the payload version. The response of update webhook has it, because that response has no body. */
export const PAYLOAD_VERSION_HEADER = 'X-Service-Payload-Version';

const payloadVersion = z.string().meta({
  description: "The API version that shapes the payloads of later events: the shop's",
});

/** A subscription with the state of its deliveries. All fields except the first five are additions to the interface. */
export const webhook = z
  .object({
    ...fields,
    delivers,
    payload_version: payloadVersion,
    health: z.enum(WEBHOOK_HEALTH).meta({
      description:
        '`healthy`: the last attempt succeeded, or there was none since the address changed or a user activated the webhook; `failing`: the last attempts failed; `paused`: the address fails so often that only single deliveries are tried until one succeeds; `inactive`: nothing is sent',
    }),
    success_rate_24h: z.number().min(0).max(1).nullable().meta({
      description:
        'Share of the deliveries of events of the last 24 hours that were delivered, 0 to 1. At most the newest 200 count, and waiting ones count once they were tried, or while the webhook fails. What was tried before the address changed, or before a user activated the webhook, does not count. Null when none counts',
    }),
    failures: z.int().min(0).meta({ description: 'Failed attempts since the last success' }),
    failing_since: time().meta({ description: 'When the failures began; null without failures' }),
    disables_at: time().meta({
      description:
        'When it becomes inactive if all attempts fail until then, at least ten of them; null when it has no failures or is inactive',
    }),
    oldest_waiting_at: time().meta({
      description: 'Time of the oldest event that waits to be delivered; null when none waits',
    }),
    inactive_since: means(time(), 'When it became inactive; null when it is active'),
    inactive_reason: nullableText().meta({
      description: 'Why we set it to inactive; null when it is active, or a user did',
    }),
    created_at: means(requiredTime(), 'When it was made'),
    updated_at: means(requiredTime(), 'When it last changed'),
  })
  .meta({ id: 'Webhook' });
export type Webhook = z.infer<typeof webhook>;

export const createdWebhook = z
  .object({
    ...fields,
    secret: z.string().meta({
      description: 'Signing secret (Standard Webhooks): `whsec_` and Base64',
    }),
    delivers,
    payload_version: payloadVersion,
    warnings: z
      .array(
        z
          .object({
            code: z.enum(WEBHOOK_WARNINGS).meta({
              description:
                '`NEVER_DELIVERS`: the topic never delivers the trigger; `DUPLICATE`: another webhook of the shop has the same address, topic and trigger',
            }),
            message: means(
              z.string(),
              'For people: what the topic delivers, or which webhook it is',
            ),
          })
          .meta({ id: 'WebhookWarning' }),
      )
      .meta({ description: 'What will not work as it was probably meant; empty otherwise' }),
  })
  .meta({ id: 'CreatedWebhook' });
export type CreatedWebhook = z.infer<typeof createdWebhook>;

export const webhookList = z.array(webhook).meta({ description: 'Id ascending' });

/** Signing secrets of a webhook: an addition to the interface. */

const OVERLAP_RULE = `must be a whole number from 0 to ${SECRET_OVERLAP_HOURS_MAX}`;

/** How long earlier secrets continue to sign after a rotation. */
export function overlapHours() {
  return z
    .int({ error: typed(OVERLAP_RULE.replace('must be ', '')) })
    .min(0, { error: OVERLAP_RULE })
    .max(SECRET_OVERLAP_HOURS_MAX, { error: OVERLAP_RULE });
}

export const rotateSecretBody = z
  .object({
    overlap_hours: overlapHours()
      .meta(ownBound)
      .nullish()
      .meta({
        description: `How long the earlier secrets still sign. ${SECRET_OVERLAP_HOURS_DEFAULT} when absent; 0 ends them immediately`,
      }),
  })
  .meta({ id: 'RotateSecretBody' });
export type RotateSecretBody = z.infer<typeof rotateSecretBody>;

export const webhookSecret = z
  .object({
    secret: z.string().meta({
      description: 'Signing secret (Standard Webhooks): `whsec_` and Base64',
    }),
    created_at: z
      .string()
      .meta({ format: 'date-time', description: 'When it was made, YYYY-MM-DDThh:mm:ss+00:00' }),
    expires_at: time().meta({ description: 'When it stops signing; null for the newest' }),
  })
  .meta({ id: 'WebhookSecret' });
export type WebhookSecretObject = z.infer<typeof webhookSecret>;

export const webhookSecrets = z
  .object({
    secrets: z
      .array(webhookSecret)
      .meta({ description: 'Those that sign deliveries now, newest first' }),
  })
  .meta({ id: 'WebhookSecrets' });

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
