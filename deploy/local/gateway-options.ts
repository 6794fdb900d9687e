import { SHOP_MIB_PER_DAY } from '../../gateway/auth/byte-quota.ts';
import { HOURLY_LIMITS } from '../../gateway/auth/hourly-limits.ts';
import { MCP_LIMITS } from '../../gateway/auth/mcp-limits.ts';
import { DEFAULT_CLIENT_ID } from '../../gateway/oauth/config.ts';
import type { ServiceTargets } from '../../gateway/services.ts';
import type { GatewayOptions } from '../../gateway/start.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import { parseKeyring } from '../../services/platform/keyring.ts';
import type { Database } from './database.ts';
import { oauthKeyringOf, signInSecretOf } from './memory.ts';
import type { Plan } from './parts.ts';

/** Limits of the local gateway: REST so high that only the key `limited` ever meets its own. */
export const LIMITS = {
  rest_per_minute: 100_000,
  failed_credentials: 60,
  well_known: HOURLY_LIMITS.wellKnown,
  register: HOURLY_LIMITS.register,
  authorize: HOURLY_LIMITS.authorize,
  token: HOURLY_LIMITS.token,
  revoke: HOURLY_LIMITS.revoke,
  mcp_calls: HOURLY_LIMITS.mcpCalls,
  callback: HOURLY_LIMITS.callback,
  resume: HOURLY_LIMITS.resume,
  sign_in_pages: HOURLY_LIMITS.signInPages,
  jwks: HOURLY_LIMITS.jwks,
  mcp_requests_per_minute: MCP_LIMITS.requests,
  mcp_refused_per_minute: MCP_LIMITS.refused,
  shop_mib_per_day: SHOP_MIB_PER_DAY,
} as const;

/** How the gateway is known where its users sign in. */
export const SIGN_IN_CLIENT_ID = 'rms-sign-in';

/** The client that MCP clients sign in as, and where the browser may go back to: loopback, any port. */
export const MCP_CLIENT = {
  clientId: DEFAULT_CLIENT_ID,
  redirectUris: ['http://127.0.0.1:{port}/callback'],
} as const;

/** Further listeners: the day at which their version calendar stands, and their port. */
export const CALENDARS = [
  { day: '2027-08-01', port: 'deprecated' },
  { day: '2027-11-01', port: 'sunset' },
  { day: '2028-02-01', port: 'expired' },
] as const;

/** How the local stack runs its gateway. */
export function gatewayOptions(
  plan: Plan,
  o: {
    readonly database: Database;
    readonly targets: ServiceTargets;
    readonly identity: ServiceIdentity;
  },
): GatewayOptions {
  return {
    host: '127.0.0.1',
    port: plan.memory.memory.ports.gateway,
    metricsPort: plan.memory.memory.ports['gateway-metrics'],
    publicUrl: plan.baseUrl,
    databaseUrl: o.database.urlOf('gateway'),
    poolMax: 8,
    targets: o.targets,
    identity: o.identity,
    restPerMinute: LIMITS.rest_per_minute,
    trustedProxies: ['127.0.0.1/32'],
    partnerOAuth: {
      issuer: plan.authUrl,
      audience: plan.baseUrl,
      jwksUrl: plan.jwksUrl,
      shopClaim: 'shop_id',
    },
    oauthKeyring: parseKeyring(oauthKeyringOf(plan.memory)),
    ...signInOf(plan),
    logLevel: plan.surroundings.logLevel,
    logPretty: true,
    ...(plan.options.calendar && { calendar: plan.options.calendar }),
  };
}

/** Where people sign in: at the bundled identity, else at the issuer given, where our client is known. */
function signInOf(plan: Plan): Pick<GatewayOptions, 'signIn'> {
  const { oidcIssuer, oidcClient } = plan.surroundings;
  if (oidcIssuer) return oidcClient ? { signIn: { issuer: oidcIssuer, ...oidcClient } } : {};
  const clientSecret = signInSecretOf(plan.memory);
  return { signIn: { issuer: plan.authUrl, clientId: SIGN_IN_CLIENT_ID, clientSecret } };
}
