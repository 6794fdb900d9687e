import { HOURLY_LIMITS } from '../../gateway/auth/hourly-limits.ts';
import { DEFAULT_CLIENT_ID } from '../../gateway/oauth/config.ts';
import type { GatewayOptions } from '../../gateway/options.ts';
import { type RunningGateway, startGateway } from '../../gateway/start.ts';
import { staticIdentity } from '../../services/platform/identity.ts';
import { parseKeyring } from '../../services/platform/keyring.ts';
import { SIGN_IN_CLIENT_ID } from './identity/sign-in.ts';
import { oauthKeyringOf, signInSecretOf } from './memory.ts';
import type { Plan } from './plan.ts';
import type { Database } from './postgres/database.ts';
import type { LocalServices } from './services.ts';

const MIB = 1024 * 1024;

/** More than trials and tests send from the one IP address of this machine. */
const HIGH_LIMIT = 100_000;

/**
 * Limits of the local gateway. The limits of the interface have their defined values, except the REST limit: it is so
 * high that only the key `limited` reaches a limit. The other limits are so high that trials and tests do not reach
 * them.
 */
export const LIMITS = {
  rest_per_minute: HIGH_LIMIT,
  failed_credentials: 60,
  well_known: HOURLY_LIMITS.wellKnown,
  register: HOURLY_LIMITS.register,
  authorize: HOURLY_LIMITS.authorize,
  token: HOURLY_LIMITS.token,
  mcp_calls: HOURLY_LIMITS.mcpCalls,
  revoke: HIGH_LIMIT,
  callback: HIGH_LIMIT,
  resume: HIGH_LIMIT,
  sign_in_pages: HIGH_LIMIT,
  jwks: HIGH_LIMIT,
  mcp_requests_per_minute: HIGH_LIMIT,
  mcp_refused_per_minute: HIGH_LIMIT,
  shop_mib_per_day: 1_000_000,
  body_mib: 128,
  body_mib_per_caller: 64,
  requests_in_flight: 256,
} as const;

/** The client id and redirect URIs of MCP clients in the stack file: loopback, any port. */
export const MCP_CLIENT = {
  clientId: DEFAULT_CLIENT_ID,
  redirectUris: ['http://127.0.0.1:{port}/callback'],
} as const;

/** Additional listeners: the date of their version calendar, and the name of their port. */
const CALENDARS = [
  { day: '2027-08-01', port: 'deprecated' },
  { day: '2027-11-01', port: 'sunset' },
  { day: '2028-02-01', port: 'expired' },
] as const;

export interface LocalGateway extends RunningGateway {
  /** Additional listeners by the date of their version calendar. */
  readonly baseUrlAt: Readonly<Record<string, string>>;
}

interface Backend {
  readonly database: Database;
  readonly services: LocalServices;
}

/** Starts the gateway and its additional listeners, which stop with it. */
export async function startLocalGateway(plan: Plan, backend: Backend): Promise<LocalGateway> {
  const gateway = await startGateway(optionsOf(plan, backend));
  const baseUrlAt: Record<string, string> = {};
  try {
    for (const { port, day } of CALENDARS) {
      const { url } = await gateway.listenAt(new Date(`${day}T00:00:00Z`), plan.ports[port]);
      baseUrlAt[day] = url;
    }
  } catch (error) {
    await gateway.stop();
    throw error;
  }
  return { ...gateway, baseUrlAt };
}

function optionsOf(plan: Plan, { database, services }: Backend): GatewayOptions {
  return {
    host: '127.0.0.1',
    port: plan.ports.gateway,
    metricsPort: plan.ports['gateway-metrics'],
    publicUrl: plan.baseUrl,
    databaseUrl: database.urlOf('gateway'),
    poolMax: 8,
    targets: services.targets,
    identity: staticIdentity(plan.memory.memory.serviceToken),
    ...limitOptions(),
    trustedProxies: ['127.0.0.1/32'],
    // A browser keeps idle connections, which would delay the stop.
    httpLimits: { idleAtStopMs: 0 },
    partnerOAuth: {
      issuer: plan.authUrl,
      audience: plan.baseUrl,
      jwksUrl: plan.jwksUrl,
      shopClaim: 'shop_id',
    },
    oauthKeyring: parseKeyring(oauthKeyringOf(plan.memory)),
    ...signInOf(plan),
    logLevel: plan.externalSystems.logLevel,
    logPretty: true,
    ...(plan.options.calendar && { calendar: plan.options.calendar }),
  };
}

function limitOptions(): Partial<GatewayOptions> {
  return {
    restPerMinute: LIMITS.rest_per_minute,
    failedCredentialsPerMinute: LIMITS.failed_credentials,
    perHour: {
      wellKnown: LIMITS.well_known,
      register: LIMITS.register,
      authorize: LIMITS.authorize,
      token: LIMITS.token,
      mcpCalls: LIMITS.mcp_calls,
      revoke: LIMITS.revoke,
      callback: LIMITS.callback,
      resume: LIMITS.resume,
      signInPages: LIMITS.sign_in_pages,
      jwks: LIMITS.jwks,
    },
    mcpPerMinute: {
      requests: LIMITS.mcp_requests_per_minute,
      refused: LIMITS.mcp_refused_per_minute,
    },
    shopMibPerDay: LIMITS.shop_mib_per_day,
    bodyBudget: { process: LIMITS.body_mib * MIB, caller: LIMITS.body_mib_per_caller * MIB },
    maxRequestsInFlight: LIMITS.requests_in_flight,
  };
}

/** The identity provider: the bundled one, or the given issuer if it has a client for us. */
function signInOf(plan: Plan): Pick<GatewayOptions, 'signIn'> {
  const { oidcIssuer, oidcClient } = plan.externalSystems;
  if (oidcIssuer) return oidcClient ? { signIn: { issuer: oidcIssuer, ...oidcClient } } : {};
  const clientSecret = signInSecretOf(plan.memory);
  return { signIn: { issuer: plan.authUrl, clientId: SIGN_IN_CLIENT_ID, clientSecret } };
}
