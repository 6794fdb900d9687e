import { ConfigError, grpcTarget, list, type Settings, serviceShape } from '../platform/config.ts';
import { keyringText, parseKeyring } from '../platform/keyring.ts';

/** The variables of the returns service. */
export const returnsShape = {
  ...serviceShape,
  DESTINATIONS_TARGET: grpcTarget
    .default('dns:///destinations:8080')
    .describe('gRPC name of the destinations service'),
  FRAUD_TARGET: grpcTarget.default('dns:///fraud:8080').describe('gRPC name of the fraud service'),
  COMMERCE_KEYRING: keyringText
    .transform(parseKeyring)
    .optional()
    .describe(
      'Keys that encrypt the signing secrets of commerce providers at rest; the first encrypts, all decrypt. Without it no shop can be connected to a provider',
    ),
  COMMERCE_ALLOWED_ORIGINS: list
    .default([])
    .describe(
      'Permitted origins of commerce providers besides public https ones, such as http://127.0.0.1:*; never in production',
    ),
};

/** Rejects settings that production does not allow. @throws ConfigError */
export function checkProduction(config: Settings<typeof returnsShape>): void {
  if (config.NODE_ENV !== 'production' || config.COMMERCE_ALLOWED_ORIGINS.length === 0) return;
  throw new ConfigError(['COMMERCE_ALLOWED_ORIGINS must not be set in production']);
}
