import { z } from 'zod';
import {
  ConfigError,
  calendarDay,
  databaseShape,
  flag,
  healthShape,
  httpUrl,
  identityShape,
  list,
  loadConfig,
  milliseconds,
  originList,
  processShape,
  type Settings,
  wholeNumber,
} from '../services/platform/process/config.ts';
import { proxiesError } from './auth/client-ip.ts';
import { hourlyShape } from './auth/hourly-limits.ts';
import { mcpShape } from './auth/mcp-limits.ts';
import type { PartnerOAuth } from './auth/partner-tokens.ts';
import { BODY_BUDGET } from './http/body-budget.ts';
import { MAX_REQUESTS_IN_FLIGHT } from './http/in-flight.ts';
import { HTTP_LIMITS } from './http/server.ts';
import { mailFaults, mailShape } from './mail/config.ts';
import { oauthFaults, oauthShape } from './oauth/config.ts';
import { portalShape } from './portal/config.ts';
import { targetsShape } from './services.ts';

const MIB = 1024 * 1024;

/** Undefined when not set. Then all callers behind a load balancer share its address. */
const trustedProxies = list
  .transform((proxies) => (proxies.join() === 'none' ? [] : proxies))
  .superRefine((proxies, context) => {
    const message = proxiesError(proxies);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .optional();

export const gatewayShape = {
  ...processShape,
  ...healthShape(
    'TCP port of /livez and /readyz on a thread of their own, for the kubelet; without it only PORT has them',
  ),
  ...databaseShape,
  ...identityShape,
  ...targetsShape,
  PUBLIC_BASE_URL: httpUrl
    .refine((url) => !url.endsWith('/'), 'must be an address without a trailing slash')
    .default('http://127.0.0.1:8080')
    .describe("Public address of this API; the audience of partners' tokens"),
  API_CALENDAR: calendarDay,
  REST_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(300)
    .describe(
      'REST requests per minute of an app, or of a key without its own limit (`key create --per-minute`); large bodies count as several, previews and starts of replays as ten',
    ),
  SHOP_MIB_PER_DAY: wholeNumber(1, 1_000_000)
    .default(2_048)
    .describe('MiB of request bodies of one shop per UTC day, after decompression; above it 429'),
  MAX_REQUESTS_IN_FLIGHT: wholeNumber(8, 10_000)
    .default(MAX_REQUESTS_IN_FLIGHT)
    .describe(
      'Maximum in-flight requests of each operation; a quarter of it for dispositions, four times as many for one second. Further requests are shed with 503',
    ),
  FAILED_CREDENTIALS_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(60)
    .describe(
      'Rejected credentials per minute from one address, and wrong signatures of Shopify; above it 429 instead of 401',
    ),
  ...hourlyShape,
  ...mcpShape,
  BODY_MIB: wholeNumber(43, 100_000)
    .default(BODY_BUDGET.process / MIB)
    .describe(
      'MiB of request bodies in memory at one time, after decompression, 5/8 of them for one shop. The process needs eight times as much memory, and 256 MiB',
    ),
  BODY_MIB_PER_CALLER: wholeNumber(32, 100_000)
    .default(BODY_BUDGET.caller / MIB)
    .describe('MiB of BODY_MIB that one key, app or user may use; the largest body is 32 MiB'),
  MAX_CONNECTIONS: wholeNumber(10, 1_000_000)
    .default(HTTP_LIMITS.maxConnections)
    .describe(
      'Maximum open connections; further ones are closed. Those of strangers are for the edge to bound',
    ),
  SHUTDOWN_IDLE_MS: milliseconds(0, 15_000)
    .default(HTTP_LIMITS.idleAtStopMs)
    .describe(
      'Milliseconds for which idle connections stay open after a stop begins; each response already ends its connection',
    ),
  TRUSTED_PROXIES: trustedProxies.describe(
    'Addresses or CIDR ranges of our own proxies, as the gateway sees them, whose X-Forwarded-For is read; `none` if clients connect directly. In production the addresses of the edge (docs/edge.md). List no range that has clients in it. Ranges wider than /8 (IPv4) or /7 (IPv6) are rejected',
  ),
  PARTNER_ISSUER: z
    .url({ error: 'must be an address' })
    .optional()
    .describe(
      "Issuer of partners' access tokens, https in production, if partners have another authorization server than our own at <PUBLIC_BASE_URL>/partners",
    ),
  PARTNER_JWKS_URL: httpUrl
    .optional()
    .describe("URL of that issuer's public keys, https in production"),
  PARTNER_SHOP_CLAIM: z
    .string()
    .default('shop_id')
    .describe("Claim of partners' tokens with the shop id"),
  PARTNER_USER_CLAIM: z
    .string()
    .min(1, 'must not be empty')
    .optional()
    .describe(
      "Claim of partners' tokens with the person who allowed the app: their confirmed e-mail address, or `sub` when members sign in at the same issuer. The token works only while that member may manage webhooks. Tokens without the claim name no person",
    ),
  ...oauthShape,
  ...portalShape,
  ...mailShape,
  MCP_ALLOWED_ORIGINS: originList
    .default([])
    .describe('Additional origins of pages that may call /mcp from a browser'),
  DOCS_ENABLED: flag
    .default(true)
    .describe(
      'Whether /docs serves the documentation; without it only the changelog and the errors',
    ),
  DOCS_OAUTH_CLIENT_ID: z
    .string()
    .min(1, 'must not be empty')
    .optional()
    .describe(
      'Public client of the authorization server of partners (`partner-app create --public`) for requests of the API reference in /docs, with the redirect URI <base address>/docs/oauth2-redirect; without it readers enter a client of their own',
    ),
};

export type GatewayConfig = Settings<typeof gatewayShape>;

/**
 * Reads the gateway's settings from the environment.
 *
 * @throws ConfigError
 */
export function loadGatewayConfig(env: NodeJS.ProcessEnv = process.env): GatewayConfig {
  const config = loadConfig(gatewayShape, env);
  const errors = combinationErrors(config);
  if (errors.length > 0) throw new ConfigError(errors);
  return config;
}

/** The errors of settings that are valid alone, but not together. */
function combinationErrors(config: GatewayConfig): string[] {
  const errors: string[] = [];
  if (config.NODE_ENV === 'production' && config.API_CALENDAR !== undefined) {
    errors.push('API_CALENDAR: not allowed in production, which uses the real date');
  }
  if (config.NODE_ENV === 'production' && !config.TRUSTED_PROXIES?.length) {
    errors.push(
      'TRUSTED_PROXIES is missing: production needs the addresses of the edge in front of the gateway (docs/edge.md); otherwise all callers share the limits of one address, or strangers reach the gateway directly',
    );
  }
  if ((config.PARTNER_ISSUER === undefined) !== (config.PARTNER_JWKS_URL === undefined)) {
    errors.push('PARTNER_ISSUER and PARTNER_JWKS_URL must be set together or not at all');
  }
  return [...errors, ...partnerErrors(config), ...oauthFaults(config), ...mailFaults(config)];
}

/** The partners' keys need https: an attacker who replaces them could issue tokens for any shop that installed an app. */
function partnerErrors(config: GatewayConfig): string[] {
  if (config.NODE_ENV !== 'production') return [];
  return (['PARTNER_ISSUER', 'PARTNER_JWKS_URL'] as const)
    .filter((name) => !(config[name] ?? 'https://').startsWith('https://'))
    .map((name) => `${name}: must be https in production`);
}

/** Another authorization server of partners than our own; undefined when there is none. */
export function partnerOAuth(config: GatewayConfig): PartnerOAuth | undefined {
  const { PARTNER_ISSUER: issuer, PARTNER_JWKS_URL: jwksUrl } = config;
  if (issuer === undefined || jwksUrl === undefined) return undefined;
  const audience = config.PUBLIC_BASE_URL;
  return {
    issuer,
    jwksUrl,
    audience,
    shopClaim: config.PARTNER_SHOP_CLAIM,
    userClaim: config.PARTNER_USER_CLAIM,
  };
}
