import { createReturnReader } from './actions/read-returns.ts';
import type { AppDependencies } from './app.ts';
import { createApiKeyCheck } from './auth/api-key-check.ts';
import { createLimits } from './auth/limits.ts';
import { measuredBudgets } from './http/body-budget.ts';
import { createInFlight } from './http/in-flight.ts';
import { createReadiness, type Phase } from './http/probes.ts';
import { HTTP_LIMITS } from './http/server.ts';
import { createMcp } from './mcp/router.ts';
import { createAccessTokenCheck } from './oauth/access-token.ts';
import { signInProvider, supportedClients } from './oauth/config.ts';
import { mcpResource } from './oauth/issue.ts';
import { createOAuthKeys } from './oauth/keys.ts';
import { createOAuth } from './oauth/router.ts';
import type { GatewayOptions, OpenedParts } from './open-parts.ts';
import { createPortal } from './portal/create.ts';

/** Creates the parts of the HTTP application. */
export function assemble(o: GatewayOptions, parts: OpenedParts, phase: () => Phase) {
  const { clientIp, logger, pool, telemetry, backend, workers } = parts;
  const limits = createLimits(o, { pool, logger, clientIp, telemetry });
  const { hourlyLimits } = limits;
  const issuer = o.PUBLIC_BASE_URL;
  const keys = o.OAUTH_KEYRING && createOAuthKeys(pool, o.OAUTH_KEYRING);
  const provider = signInProvider(o);
  const common = {
    pool,
    clientIp,
    logger,
    telemetry,
    publicUrl: issuer,
    docs: o.DOCS_ENABLED,
    smallBodyMs: o.httpLimits?.headersMs ?? HTTP_LIMITS.headersMs,
    audit: workers.audit,
    inFlight: createInFlight({ size: o.MAX_REQUESTS_IN_FLIGHT, logger, telemetry }),
    services: backend.services,
    readReturn: createReturnReader(backend.services.returns),
    byteQuota: limits.byteQuota,
    ...measuredBudgets(telemetry.meter, budgetsOf(o)),
  };
  const { used } = workers.grantUsage;
  const mcp = createMcp({
    ...common,
    allowedOrigins: o.MCP_ALLOWED_ORIGINS,
    tokens: keys
      ? createAccessTokenCheck({ pool, issuer, resource: mcpResource(issuer), keys, used })
      : { check: async () => undefined },
    toolCalls: hourlyLimits.mcpCalls,
    limits: limits.mcpLimits,
  });
  const oauth = createOAuth({
    ...common,
    issuer,
    limits: hourlyLimits,
    clients: supportedClients(o),
    grantDays: o.MCP_GRANT_DAYS,
    formOrigins: o.SIGN_IN_FORM_ORIGINS,
    mails: parts.mails,
    ...(provider && keys && { signIn: { keys, provider } }),
  });
  const calls = limits.portalCalls;
  const portal = createPortal({ ...common, settings: o, provider, limits: hourlyLimits, calls });
  const deps: AppDependencies = {
    ...common,
    mcp,
    oauth,
    portal,
    hourlyLimits,
    versionUsage: workers.versionUsage,
    auth: {
      apiKeys: createApiKeyCheck(pool, workers.keyUsage.used),
      partnerTokens: parts.partnerTokens,
      failedCredentials: limits.failedCredentials,
    },
    restLimit: limits.restLimit,
    restPerMinute: o.REST_PER_MINUTE,
    readiness: createReadiness(pool, phase),
    referenceSignIn: { authUrl: o.PARTNER_ISSUER, clientId: o.DOCS_OAUTH_CLIENT_ID },
  };
  return { deps, limits };
}

function budgetsOf({ bodyBudget, responseBudget, ...o }: GatewayOptions) {
  const bodies = { process: o.BODY_MIB * MIB, caller: o.BODY_MIB_PER_CALLER * MIB };
  return { bodies: { ...bodies, ...bodyBudget }, responses: responseBudget };
}

const MIB = 1024 * 1024;
