import { z } from 'zod';
import { grpcTarget, list, serviceShape, wholeNumber } from '../platform/config.ts';
import { parseKeyring } from '../platform/keyring.ts';

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** The variables of the webhooks service. */
export const webhooksShape = {
  ...serviceShape,
  RETURNS_TARGET: grpcTarget.describe('gRPC name of the returns service'),
  WEBHOOK_KEYRING: z
    .string()
    .refine(isKeyring, 'wants id:base64 of 32 bytes, several separated by commas, newest first')
    .describe('Keys that encrypt signing secrets at rest; the first encrypts, all decrypt'),
  WEBHOOK_ALLOWED_ORIGINS: list
    .default([])
    .describe(
      'Origins allowed besides public https ones, such as http://127.0.0.1:*; never in production',
    ),
  WEBHOOK_CONCURRENCY: wholeNumber(1, 1_000)
    .default(512)
    .describe('Places for deliveries in flight in this process'),
  WEBHOOK_LOG_DAYS: wholeNumber(1, 365)
    .default(30)
    .describe('Days for which finished deliveries, their attempts and payloads are kept'),
  API_CALENDAR: z
    .string()
    .regex(DAY, 'wants a date, YYYY-MM-DD')
    .optional()
    .describe('Day at which the version calendar stands still; not in production'),
};

export type WebhooksConfig = z.infer<z.ZodObject<typeof webhooksShape>>;

function isKeyring(text: string): boolean {
  try {
    parseKeyring(text);
    return true;
  } catch {
    return false;
  }
}

/** What production does not allow. @throws Error naming the variable. */
export function refuseInProduction(config: WebhooksConfig): void {
  if (config.NODE_ENV !== 'production') return;
  if (config.WEBHOOK_ALLOWED_ORIGINS.length > 0) {
    throw new Error('WEBHOOK_ALLOWED_ORIGINS must not be set in production');
  }
  if (config.API_CALENDAR !== undefined) {
    throw new Error('API_CALENDAR must not be set in production');
  }
}
