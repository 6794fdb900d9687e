import { z } from 'zod';
import {
  ConfigError,
  calendarDay,
  databaseShape,
  flag,
  grpcTarget,
  httpUrl,
  identityShape,
  list,
  loadConfig,
  milliseconds,
  processShape,
  wholeNumber,
} from '../services/platform/config.ts';
import { identityFromConfig } from '../services/platform/identity.ts';
import { SHOP_MIB_PER_DAY } from './auth/byte-quota.ts';
import { proxiesFault } from './auth/client-ip.ts';
import { HOURLY_LIMITS } from './auth/hourly-limits.ts';
import { MCP_LIMITS } from './auth/mcp-limits.ts';
import { BODY_BUDGET } from './http/body-budget.ts';
import { MAX_REQUESTS_IN_FLIGHT } from './http/in-flight.ts';
import { HTTP_LIMITS } from './http/server.ts';
import { oauthFaults, oauthOptions, oauthShape } from './oauth/config.ts';
import type { GatewayOptions } from './options.ts';

const perHour = (points: number) => wholeNumber(1, 1_000_000).default(points);
const MIB = 1024 * 1024;
const target = (name: string) => grpcTarget.describe(`gRPC name of the ${name} service`);

/** Undefined when not set. Behind a load balancer, all callers would then share its address. */
const trustedProxies = list
  .transform((proxies) => (proxies.join() === 'none' ? [] : proxies))
  .superRefine((proxies, context) => {
    const message = proxiesFault(proxies);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .optional();

export const gatewayShape = {
  ...processShape,
  ...databaseShape,
  ...identityShape,
  RETURNS_TARGET: target('returns'),
  DISPOSITIONS_TARGET: target('dispositions'),
  DESTINATIONS_TARGET: target('destinations'),
  FRAUD_TARGET: target('fraud'),
  CARTS_TARGET: target('carts'),
  WEBHOOKS_TARGET: target('webhooks'),
  PUBLIC_BASE_URL: httpUrl
    .refine((url) => !url.endsWith('/'), 'must be an address without a trailing slash')
    .default('http://127.0.0.1:8080')
    .describe("Public address of this API; the audience of partners' tokens"),
  API_CALENDAR: calendarDay,
  REST_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(300)
    .describe('REST requests per minute and key, for keys without their own limit'),
  SHOP_MIB_PER_DAY: wholeNumber(1, 1_000_000)
    .default(SHOP_MIB_PER_DAY)
    .describe('MiB of request bodies after decompression, per shop and UTC day; above it 429'),
  MAX_REQUESTS_IN_FLIGHT: wholeNumber(8, 10_000)
    .default(MAX_REQUESTS_IN_FLIGHT)
    .describe(
      'Maximum in-flight requests of each operation; a quarter of it for dispositions, four times as many for one second. Further requests are refused',
    ),
  FAILED_CREDENTIALS_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(60)
    .describe('Rejected credentials per minute and address; above it 429 instead of 401'),
  WELL_KNOWN_PER_HOUR: perHour(HOURLY_LIMITS.wellKnown).describe(
    'Requests per hour and address for the metadata under /.well-known',
  ),
  REGISTER_PER_HOUR: perHour(HOURLY_LIMITS.register).describe(
    'Requests per hour and address to /oauth/register',
  ),
  AUTHORIZE_PER_HOUR: perHour(HOURLY_LIMITS.authorize).describe(
    'Requests per hour and address to /oauth/authorize',
  ),
  TOKEN_PER_HOUR: perHour(HOURLY_LIMITS.token).describe(
    'Requests per hour and address to /oauth/token',
  ),
  REVOKE_PER_HOUR: perHour(HOURLY_LIMITS.revoke).describe(
    'Requests per hour and address to /oauth/revoke',
  ),
  MCP_CALLS_PER_HOUR: perHour(HOURLY_LIMITS.mcpCalls).describe(
    'Tool calls per hour and signed-in user, over all shops',
  ),
  CALLBACK_PER_HOUR: perHour(HOURLY_LIMITS.callback).describe(
    'Requests per hour and address to /oauth/callback',
  ),
  RESUME_PER_HOUR: perHour(HOURLY_LIMITS.resume).describe(
    'Requests per hour and address to /oauth/authorize/{id}, the last step of a sign-in',
  ),
  SIGN_IN_PAGES_PER_HOUR: perHour(HOURLY_LIMITS.signInPages).describe(
    'Pages and forms of /oauth/sign-in per hour and address',
  ),
  JWKS_PER_HOUR: perHour(HOURLY_LIMITS.jwks).describe(
    'Requests per hour and address to /oauth/jwks',
  ),
  MCP_REQUESTS_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(MCP_LIMITS.requests)
    .describe('Requests to /mcp per minute and signed-in user, over all shops and methods'),
  MCP_REFUSED_PER_MINUTE: wholeNumber(1, 1_000_000)
    .default(MCP_LIMITS.refused)
    .describe('Rejected requests to /mcp per minute and address; above it 429 instead of 401'),
  BODY_MIB: wholeNumber(43, 100_000)
    .default(BODY_BUDGET.process / MIB)
    .describe(
      'MiB of request bodies in memory at one time, after decompression; eight times as much must fit into the memory limit',
    ),
  BODY_MIB_PER_CALLER: wholeNumber(32, 100_000)
    .default(BODY_BUDGET.caller / MIB)
    .describe('MiB of BODY_MIB that one key, app or user may use; the largest body is 32 MiB'),
  MAX_CONNECTIONS: wholeNumber(10, 1_000_000)
    .default(HTTP_LIMITS.maxConnections)
    .describe(
      'Maximum open connections; above it the connection that has been waiting longest for its client is closed',
    ),
  SHUTDOWN_IDLE_MS: milliseconds(0, 15_000)
    .default(HTTP_LIMITS.idleAtStopMs)
    .describe(
      'Milliseconds from the begin of a stop for which idle connections stay open; each response already ends its connection',
    ),
  TRUSTED_PROXIES: trustedProxies.describe(
    'Addresses or CIDR ranges of our own proxies, whose X-Forwarded-For is read, or `none`; required in production',
  ),
  PARTNER_ISSUER: z
    .url({ error: 'must be an address' })
    .optional()
    .describe(
      "Issuer of partners' access tokens, https in production; without it every such token is rejected",
    ),
  PARTNER_JWKS_URL: httpUrl
    .optional()
    .describe("URL of that issuer's public keys, https in production"),
  PARTNER_SHOP_CLAIM: z
    .string()
    .default('shop_id')
    .describe("Claim of partners' tokens with the shop id"),
  ...oauthShape,
  MCP_ALLOWED_ORIGINS: list
    .refine((origins) => origins.every(isOrigin), {
      error: 'must be origins such as https://console.example.com',
    })
    .default([])
    .describe('Additional origins of pages that may call /mcp from a browser'),
  DOCS_ENABLED: flag.default(true).describe('Whether /docs serves the documentation page'),
};

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}

type GatewayConfig = z.infer<z.ZodObject<typeof gatewayShape>>;

/**
 * Reads the gateway's options from the environment.
 *
 * @throws ConfigError
 */
export function loadGatewayOptions(env: NodeJS.ProcessEnv = process.env): GatewayOptions {
  const config = loadConfig(gatewayShape, env);
  const faults = faultsBetween(config);
  if (faults.length > 0) throw new ConfigError(faults);
  return {
    host: config.HOST,
    port: config.PORT,
    metricsPort: config.METRICS_PORT,
    databaseUrl: config.DATABASE_URL,
    poolMax: config.DATABASE_POOL_MAX,
    targets: {
      returns: config.RETURNS_TARGET,
      dispositions: config.DISPOSITIONS_TARGET,
      destinations: config.DESTINATIONS_TARGET,
      fraud: config.FRAUD_TARGET,
      carts: config.CARTS_TARGET,
      webhooks: config.WEBHOOKS_TARGET,
    },
    identity: identityFromConfig(config),
    publicUrl: config.PUBLIC_BASE_URL,
    restPerMinute: config.REST_PER_MINUTE,
    shopMibPerDay: config.SHOP_MIB_PER_DAY,
    maxRequestsInFlight: config.MAX_REQUESTS_IN_FLIGHT,
    failedCredentialsPerMinute: config.FAILED_CREDENTIALS_PER_MINUTE,
    perHour: {
      wellKnown: config.WELL_KNOWN_PER_HOUR,
      register: config.REGISTER_PER_HOUR,
      authorize: config.AUTHORIZE_PER_HOUR,
      token: config.TOKEN_PER_HOUR,
      revoke: config.REVOKE_PER_HOUR,
      mcpCalls: config.MCP_CALLS_PER_HOUR,
      callback: config.CALLBACK_PER_HOUR,
      resume: config.RESUME_PER_HOUR,
      signInPages: config.SIGN_IN_PAGES_PER_HOUR,
      jwks: config.JWKS_PER_HOUR,
    },
    mcpPerMinute: {
      requests: config.MCP_REQUESTS_PER_MINUTE,
      refused: config.MCP_REFUSED_PER_MINUTE,
    },
    bodyBudget: { process: config.BODY_MIB * MIB, caller: config.BODY_MIB_PER_CALLER * MIB },
    httpLimits: {
      maxConnections: config.MAX_CONNECTIONS,
      idleAtStopMs: config.SHUTDOWN_IDLE_MS,
    },
    trustedProxies: config.TRUSTED_PROXIES ?? [],
    mcpAllowedOrigins: config.MCP_ALLOWED_ORIGINS,
    docs: config.DOCS_ENABLED,
    logLevel: config.LOG_LEVEL,
    logPretty: config.LOG_PRETTY,
    shutdownDelayMs: config.SHUTDOWN_DELAY_MS,
    ...(config.API_CALENDAR !== undefined && { calendar: new Date(config.API_CALENDAR) }),
    ...(config.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined && {
      otlpEndpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT,
    }),
    ...partnerOAuth(config),
    ...oauthOptions(config),
  };
}

function faultsBetween(config: GatewayConfig): string[] {
  const faults: string[] = [];
  if (config.NODE_ENV === 'production' && config.API_CALENDAR !== undefined) {
    faults.push('API_CALENDAR: not allowed in production, which uses the real date');
  }
  if (config.NODE_ENV === 'production' && config.TRUSTED_PROXIES === undefined) {
    faults.push(
      'TRUSTED_PROXIES is missing: production needs the addresses of its load balancers, or none if clients connect directly; otherwise all callers behind a load balancer share the limits of one address',
    );
  }
  if ((config.PARTNER_ISSUER === undefined) !== (config.PARTNER_JWKS_URL === undefined)) {
    faults.push('PARTNER_ISSUER and PARTNER_JWKS_URL are set together or not at all');
  }
  return [...faults, ...partnerFaults(config), ...oauthFaults(config)];
}

/** Partners' keys need https: an attacker who replaces them could issue tokens for any shop that installed an app. */
function partnerFaults(config: GatewayConfig): string[] {
  if (config.NODE_ENV !== 'production') return [];
  return (['PARTNER_ISSUER', 'PARTNER_JWKS_URL'] as const)
    .filter((name) => !(config[name] ?? 'https://').startsWith('https://'))
    .map((name) => `${name}: must be https in production`);
}

function partnerOAuth(config: GatewayConfig): Pick<GatewayOptions, 'partnerOAuth'> {
  const { PARTNER_ISSUER: issuer, PARTNER_JWKS_URL: jwksUrl } = config;
  if (issuer === undefined || jwksUrl === undefined) return {};
  const audience = config.PUBLIC_BASE_URL;
  return { partnerOAuth: { issuer, jwksUrl, audience, shopClaim: config.PARTNER_SHOP_CLAIM } };
}
