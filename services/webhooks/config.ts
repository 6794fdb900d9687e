import {
  ConfigError,
  calendarDay,
  grpcTarget,
  list,
  type Settings,
  serviceShape,
  wholeNumber,
} from '../platform/process/config.ts';
import { keyringText, parseKeyring } from '../platform/security/keyring.ts';

/** The variables of the webhooks service. */
export const webhooksShape = {
  ...serviceShape,
  RETURNS_TARGET: grpcTarget.describe('gRPC name of the returns service'),
  WEBHOOK_KEYRING: keyringText
    .transform(parseKeyring)
    .describe('Keys that encrypt signing secrets at rest; the first encrypts, all decrypt'),
  WEBHOOK_ALLOWED_ORIGINS: list
    .default([])
    .describe(
      'Permitted origins besides public https ones, such as http://127.0.0.1:*; never in production',
    ),
  WEBHOOK_CONCURRENCY: wholeNumber(1, 1_000)
    .default(512)
    .describe(
      'Maximum attempts in flight in this process; while endpoints hang, up to twice as many are open',
    ),
  WEBHOOK_SHOP_BYTES_PER_MINUTE: wholeNumber(1024 ** 2, 1024 ** 4)
    .default(1024 ** 3)
    .describe(
      'Maximum bytes that deliveries of one shop send in a minute; further deliveries wait. Its processes share it, each at least a quarter',
    ),
  WEBHOOK_LOG_DAYS: wholeNumber(1, 365)
    .default(30)
    .describe('Days for which finished deliveries, their attempts and payloads are kept'),
  API_CALENDAR: calendarDay,
};

export type WebhooksConfig = Settings<typeof webhooksShape>;

/** Rejects settings that production does not allow. @throws ConfigError that lists every such variable. */
export function checkProduction(config: WebhooksConfig): void {
  if (config.NODE_ENV !== 'production') return;
  const set = {
    WEBHOOK_ALLOWED_ORIGINS: config.WEBHOOK_ALLOWED_ORIGINS.length > 0,
    API_CALENDAR: config.API_CALENDAR !== undefined,
  };
  const problems = Object.entries(set).flatMap(([name, isSet]) =>
    isSet ? [`${name} must not be set in production`] : [],
  );
  if (problems.length > 0) throw new ConfigError(problems);
}
