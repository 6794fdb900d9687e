import { z } from 'zod';
import type { ShopifyApp } from '../commerce/shopify-app/app.ts';
import {
  ConfigError,
  grpcTarget,
  list,
  type Settings,
  serviceShape,
} from '../platform/process/config.ts';
import { keyringText, parseKeyring } from '../platform/security/keyring.ts';

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
      'Keys that encrypt the signing secrets and tokens of commerce providers at rest; the first encrypts, all decrypt. Without it no shop can be connected to a provider',
    ),
  COMMERCE_ALLOWED_ORIGINS: list
    .default([])
    .describe(
      'Permitted origins of commerce providers besides public https ones, such as http://127.0.0.1:*; never in production',
    ),
  SHOPIFY_CLIENT_ID: printable(100)
    .optional()
    .describe(
      'Client ID of the Shopify app that merchants install; without it no shop can be connected to Shopify',
    ),
  SHOPIFY_CLIENT_SECRET: printable(200)
    .optional()
    .describe('Client secret of that app. It also verifies webhooks of Shopify'),
  SHOPIFY_EXTRA_SCOPES: list
    .refine((scopes) => scopes.every((scope) => /^[a-z_]{1,100}$/.test(scope)), {
      error: 'must be scopes of Shopify, separated by commas',
    })
    .default([])
    .describe(
      'Scopes that installs of the app ask for besides the necessary ones. read_all_orders, which Shopify must approve for the app first, lets returns of orders older than 60 days be processed',
    ),
};

function printable(max: number) {
  const form = new RegExp(`^[\\x21-\\x7e]{1,${max}}$`);
  return z.string().regex(form, `must be 1 to ${max} printable characters without blanks`);
}

/** Rejects settings that do not fit together, and settings that production does not allow. @throws ConfigError */
export function checkCombinations(config: Settings<typeof returnsShape>): void {
  const problems: string[] = [];
  if (config.NODE_ENV === 'production' && config.COMMERCE_ALLOWED_ORIGINS.length > 0) {
    problems.push('COMMERCE_ALLOWED_ORIGINS must not be set in production');
  }
  const { SHOPIFY_CLIENT_ID: id, SHOPIFY_CLIENT_SECRET: secret } = config;
  if ((id === undefined) !== (secret === undefined)) {
    problems.push('SHOPIFY_CLIENT_ID and SHOPIFY_CLIENT_SECRET must be set together or not at all');
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

/** Returns the app that merchants install in their stores; undefined when none is configured. */
export function shopifyAppOf(
  config: Pick<
    Settings<typeof returnsShape>,
    'SHOPIFY_CLIENT_ID' | 'SHOPIFY_CLIENT_SECRET' | 'SHOPIFY_EXTRA_SCOPES'
  >,
): ShopifyApp | undefined {
  const { SHOPIFY_CLIENT_ID: clientId, SHOPIFY_CLIENT_SECRET: clientSecret } = config;
  const { SHOPIFY_EXTRA_SCOPES: extraScopes } = config;
  return clientId && clientSecret ? { clientId, clientSecret, extraScopes } : undefined;
}
