import type { ServiceTargets } from '../../gateway/services.ts';
import type { GatewayOptions } from '../../gateway/start.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import type { Database } from './database.ts';
import type { Parts } from './stack.ts';

/** Limits of the local gateway: REST so high that only the key `limited` ever meets its own. */
export const LIMITS = { rest_per_minute: 100_000, failed_credentials: 60 } as const;

/** Where the version calendar of the further listeners stands, by the port each listens on. */
export const CALENDARS = {
  deprecated: '2027-08-01',
  sunset: '2027-11-01',
  expired: '2028-02-01',
} as const;

/** How the local stack runs its gateway. */
export function gatewayOptions(
  parts: Parts,
  o: {
    readonly database: Database;
    readonly targets: ServiceTargets;
    readonly identity: ServiceIdentity;
  },
): GatewayOptions {
  return {
    host: '127.0.0.1',
    port: parts.memory.memory.ports.gateway,
    metricsPort: 0,
    publicUrl: parts.baseUrl,
    databaseUrl: o.database.urlOf('gateway'),
    poolMax: 8,
    targets: o.targets,
    identity: o.identity,
    restPerMinute: LIMITS.rest_per_minute,
    trustedProxies: ['127.0.0.1/32'],
    partnerOAuth: {
      issuer: parts.authUrl,
      audience: parts.baseUrl,
      jwksUrl: `${parts.authUrl}/jwks`,
      shopClaim: 'shop_id',
    },
    logLevel: parts.surroundings.logLevel,
    logPretty: true,
    ...(parts.options.calendar && { calendar: parts.options.calendar }),
  };
}
