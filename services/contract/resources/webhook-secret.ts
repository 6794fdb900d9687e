import { z } from 'zod';
import { SECRET_OVERLAP_HOURS_DEFAULT, SECRET_OVERLAP_HOURS_MAX } from '../limits.ts';
import { ownBound, typed } from './fields.ts';
import { time } from './response-fields.ts';

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
