import { type GatewayConfig, gatewayShape } from '../../gateway/config.ts';
import { DEFAULT_CLIENT_ID } from '../../gateway/oauth/config.ts';
import { type RunningGateway, startGateway } from '../../gateway/start.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { REFERENCE_CLIENT_ID } from './demo/apps.ts';
import type { LocalBus } from './event-bus.ts';
import { SIGN_IN_CLIENT_ID } from './identity/sign-in.ts';
import type { MailCatcher } from './mails.ts';
import { eventKeyringOf, oauthKeyringOf, signInSecretOf } from './memory.ts';
import type { Plan } from './plan.ts';
import type { Database } from './postgres/start.ts';
import type { LocalServices } from './services.ts';

/** More than trials and tests send from the one IP address of this machine. */
const HIGH_LIMIT = '100000';

/**
 * Limits that differ from a deployment. The limits of the interface have their defined values, except the REST limit:
 * it is so high that only the key `limited` reaches a limit. The other limits are so high that trials and tests do not
 * reach them.
 */
const LIMITS = {
  REST_PER_MINUTE: HIGH_LIMIT,
  REVOKE_PER_HOUR: HIGH_LIMIT,
  CALLBACK_PER_HOUR: HIGH_LIMIT,
  RESUME_PER_HOUR: HIGH_LIMIT,
  SIGN_IN_PAGES_PER_HOUR: HIGH_LIMIT,
  JWKS_PER_HOUR: HIGH_LIMIT,
  PARTNER_AUTHORIZE_PER_HOUR: HIGH_LIMIT,
  PARTNER_TOKEN_PER_HOUR: HIGH_LIMIT,
  PORTAL_SIGN_IN_PER_HOUR: HIGH_LIMIT,
  PORTAL_CALLBACK_PER_HOUR: HIGH_LIMIT,
  PORTAL_INVITATION_PER_HOUR: HIGH_LIMIT,
  PORTAL_CALLS_PER_MINUTE: HIGH_LIMIT,
  MCP_REQUESTS_PER_MINUTE: HIGH_LIMIT,
  MCP_REFUSED_PER_MINUTE: HIGH_LIMIT,
  SHOP_MIB_PER_DAY: '1000000',
  BODY_MIB: '128',
  BODY_MIB_PER_CALLER: '64',
  MAX_REQUESTS_IN_FLIGHT: '256',
};

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
  /** As the stack file names them. */
  readonly limits: ReturnType<typeof limitsOf>;
}

interface Backend {
  readonly database: Database;
  readonly services: LocalServices;
  readonly bus: LocalBus;
  readonly mails: MailCatcher;
}

/** Starts the gateway and its additional listeners, which stop with it. */
export async function startLocalGateway(plan: Plan, backend: Backend): Promise<LocalGateway> {
  const settings = settingsOf(plan, backend);
  // The gateway closes its bus at a stop, and this one is for all.
  const bus = { ...backend.bus.bus, close: async () => {} };
  const gateway = await startGateway({ ...settings, bus });
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
  return { ...gateway, baseUrlAt, limits: limitsOf(settings) };
}

function settingsOf(plan: Plan, { database, services, mails }: Backend): GatewayConfig {
  const targets = Object.entries(services.targets);
  const settings = loadConfig(gatewayShape, {
    ...LIMITS,
    ...Object.fromEntries(targets.map(([name, at]) => [`${name.toUpperCase()}_TARGET`, at])),
    PORT: String(plan.ports.gateway),
    METRICS_PORT: String(plan.ports['gateway-metrics']),
    PUBLIC_BASE_URL: plan.baseUrl,
    DATABASE_URL: database.urlOf('gateway'),
    DATABASE_POOL_MAX: '8',
    SERVICE_TOKEN: plan.memory.memory.serviceToken,
    TRUSTED_PROXIES: '127.0.0.1/32',
    // A browser keeps idle connections, which would delay the stop.
    SHUTDOWN_IDLE_MS: '0',
    ...(plan.options.demo && { DOCS_OAUTH_CLIENT_ID: REFERENCE_CLIENT_ID }),
    OAUTH_KEYRING: oauthKeyringOf(plan.memory),
    ...signInOf(plan),
    ...mailOf(plan, mails),
    LOG_LEVEL: plan.externalSystems.logLevel,
    LOG_PRETTY: 'true',
  });
  return { ...settings, API_CALENDAR: plan.options.calendar };
}

/**
 * Mails go to the stack itself, about a second after their event. Mails require brokers in the settings, but the gateway
 * gets the bus of the stack.
 */
function mailOf(plan: Plan, mails: MailCatcher): Record<string, string> {
  return {
    SMTP_URL: mails.url,
    SMTP_TLS: 'none',
    MAIL_FROM: 'Returns <returns@localhost>',
    MAIL_GATHER_SECONDS: '1',
    KAFKA_BROKERS: 'none:1',
    EVENT_KEYRING: eventKeyringOf(plan.memory),
  };
}

/** The limits as the stack file names them. */
function limitsOf(o: GatewayConfig) {
  return {
    rest_per_minute: o.REST_PER_MINUTE,
    failed_credentials: o.FAILED_CREDENTIALS_PER_MINUTE,
    well_known: o.WELL_KNOWN_PER_HOUR,
    register: o.REGISTER_PER_HOUR,
    authorize: o.AUTHORIZE_PER_HOUR,
    token: o.TOKEN_PER_HOUR,
    mcp_calls: o.MCP_CALLS_PER_HOUR,
    revoke: o.REVOKE_PER_HOUR,
    callback: o.CALLBACK_PER_HOUR,
    resume: o.RESUME_PER_HOUR,
    sign_in_pages: o.SIGN_IN_PAGES_PER_HOUR,
    jwks: o.JWKS_PER_HOUR,
    mcp_requests_per_minute: o.MCP_REQUESTS_PER_MINUTE,
    mcp_refused_per_minute: o.MCP_REFUSED_PER_MINUTE,
    shop_mib_per_day: o.SHOP_MIB_PER_DAY,
    body_mib: o.BODY_MIB,
    body_mib_per_caller: o.BODY_MIB_PER_CALLER,
    requests_in_flight: o.MAX_REQUESTS_IN_FLIGHT,
  };
}

/** The settings for the identity provider: the bundled one, or the issuer of the environment if it has a client for the gateway. */
function signInOf(plan: Plan): Record<string, string> {
  const { oidcIssuer, oidcClient } = plan.externalSystems;
  const own = { clientId: SIGN_IN_CLIENT_ID, clientSecret: signInSecretOf(plan.memory) };
  const client = oidcIssuer === undefined ? own : oidcClient;
  if (!client) return {};
  return {
    SIGN_IN_ISSUER: plan.identityUrl,
    SIGN_IN_CLIENT_ID: client.clientId,
    SIGN_IN_CLIENT_SECRET: client.clientSecret,
  };
}
