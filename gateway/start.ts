import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { DestinationStream } from 'pino';
import type { EventBus } from '../services/platform/bus/event-bus.ts';
import { watchRejections } from '../services/platform/database-rejections.ts';
import { identityFromConfig, type ServiceIdentity } from '../services/platform/identity.ts';
import { createLogger, type Logger } from '../services/platform/log.ts';
import { createPool } from '../services/platform/postgres.ts';
import { shutDown } from '../services/platform/shutdown.ts';
import { startTelemetry, type Telemetry } from '../services/platform/telemetry.ts';
import { within } from '../services/platform/within.ts';
import { createReturnReader } from './actions/read-returns.ts';
import { type AppDependencies, createApp } from './app.ts';
import { createApiKeyCheck } from './auth/api-key-check.ts';
import { createClientIp } from './auth/client-ip.ts';
import { createLimits } from './auth/limits.ts';
import { createPartnerTokenCheck } from './auth/partner-tokens.ts';
import { type GatewayConfig, partnerOAuth } from './config.ts';
import { type BodyBudgetSizes, measuredBudgets } from './http/body-budget.ts';
import { connectionMetrics } from './http/connections.ts';
import { createInFlight } from './http/in-flight.ts';
import { createReadiness, type Phase } from './http/probes.ts';
import {
  HTTP_LIMITS,
  type HttpLimits,
  type RunningHttpServer,
  startHttpServer,
} from './http/server.ts';
import { shedEarly } from './http/shed-early.ts';
import { mailSettings } from './mail/config.ts';
import { type Mails, startMails } from './mail/start.ts';
import { createMcp } from './mcp/router.ts';
import { createAccessTokenCheck } from './oauth/access-token.ts';
import { signInProvider, supportedClients } from './oauth/config.ts';
import { mcpResource } from './oauth/issue.ts';
import { createOAuthKeys } from './oauth/keys.ts';
import { createOAuth } from './oauth/router.ts';
import { createPortal } from './portal/create.ts';
import { connectServices, targetsOf } from './services.ts';
import { startWorkers } from './workers.ts';

/** The settings of a gateway. The fields below are set only by tests. */
export interface GatewayOptions extends GatewayConfig {
  /** Destination of log lines; standard output when absent. */
  readonly logDestination?: DestinationStream;
  /** Maximum time that a request waits for a shared counter; see `createLeasedLimit`. Milliseconds. */
  readonly limitTimeoutMs?: number;
  /** Other sizes for the budgets of request bodies, and of responses that clients have not read yet. Bytes. */
  readonly bodyBudget?: Partial<BodyBudgetSizes>;
  readonly responseBudget?: Partial<BodyBudgetSizes>;
  readonly httpLimits?: Partial<HttpLimits>;
  /** The event bus for mails; Kafka by default. The stop closes it. */
  readonly bus?: EventBus;
  /** Pauses between the tries of a mail. Milliseconds. */
  readonly mailPausesMs?: readonly number[];
}

export interface RunningGateway {
  readonly port: number;
  /** Where this process listens. */
  readonly baseUrl: string;
  readonly metricsUrl: string;
  /** Clears the counters of every rate limit. */
  resetLimits(): Promise<void>;
  /** Starts another HTTP listener, with a fixed date for the version calendar. Port 0 takes a free one. */
  listenAt(day: Date, port?: number): Promise<{ readonly url: string; stop(): Promise<void> }>;
  /**
   * Becomes unready, and ends each connection after its response. After `SHUTDOWN_DELAY_MS` it accepts no connections,
   * finishes the in-flight requests within 20 s, and closes everything. May be called twice.
   */
  stop(): Promise<void>;
}

const MIB = 1024 * 1024;

/**
 * Starts the gateway.
 *
 * The gateway is ready when it has connected its services, or after ten seconds without one of them. If the schema does
 * not fit the code, the gateway runs but stays unready. While the database or a service is
 * unavailable, the operations that need it return 503.
 *
 * @throws when a port is taken, or a setting is malformed.
 */
export async function startGateway(o: GatewayOptions): Promise<RunningGateway> {
  const opened = await openParts(o);
  const { logger, telemetry } = opened;
  const state: { phase: Phase } = { phase: 'connecting to the services' };
  void opened.backend.connected(CONNECT_MS).then(() => {
    if (state.phase !== 'stopping') state.phase = 'running';
  });
  const { deps, limits } = assemble(o, opened, () => state.phase);
  const counts = connectionMetrics(telemetry.meter);
  const servers = new Set<RunningHttpServer>();
  const listen = async (calendar: () => Date, port: number): Promise<RunningHttpServer> => {
    const app = shedEarly(deps.inFlight, calendar, createApp(deps, calendar));
    const limits = {
      maxConnections: o.MAX_CONNECTIONS,
      idleAtStopMs: o.SHUTDOWN_IDLE_MS,
      ...o.httpLimits,
    };
    const server = await startHttpServer(app, { host: o.HOST, port, counts, limits });
    servers.add(server);
    return server;
  };
  const close = async (): Promise<void> => {
    state.phase = 'stopping';
    for (const server of servers) server.endConnections();
    if (servers.size > 0 && o.SHUTDOWN_DELAY_MS > 0) await sleep(o.SHUTDOWN_DELAY_MS);
    await shutDown(logger, [
      () => Promise.all([...servers].map((server) => server.stop())),
      () => Promise.all([opened.workers.stop(), deps.mcp.stop(), opened.mails?.stop()]),
      () => opened.backend.close(),
      () => within(CLOSE_MS, opened.pool.end()),
      () => telemetry.stop(),
    ]);
  };

  const main = await listen(() => o.API_CALENDAR ?? new Date(), o.PORT).catch(
    async (error: unknown) => {
      await close();
      throw error;
    },
  );
  logger.info({ port: main.port, metrics: telemetry.metricsUrl }, 'listening');
  let stopped: Promise<void> | undefined;
  return {
    port: main.port,
    baseUrl: urlOf(o.HOST, main.port),
    metricsUrl: telemetry.metricsUrl,
    resetLimits: () => limits.reset(),
    async listenAt(day, port = 0) {
      const server = await listen(() => day, port);
      return {
        url: urlOf(o.HOST, server.port),
        async stop() {
          servers.delete(server);
          await server.stop();
        },
      };
    },
    stop() {
      stopped ??= close();
      return stopped;
    },
  };
}

function urlOf(host: string, port: number): string {
  return `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`;
}

/** Creates the parts that must be closed at a stop. Settings are parsed first, so that a wrong one starts nothing. */
async function openParts(o: GatewayOptions) {
  const clientIp = createClientIp(o.TRUSTED_PROXIES ?? []);
  const identity = identityFromConfig(o).as('gateway');
  const logger = createLogger({
    service: 'gateway',
    level: o.LOG_LEVEL,
    pretty: o.LOG_PRETTY,
    ...(o.logDestination && { destination: o.logDestination }),
  });
  const rejections = watchRejections(logger, o.DATABASE_URL);
  const pool = createPool(o.DATABASE_URL, {
    applicationName: 'gateway',
    onServerError: rejections.note,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    max: o.DATABASE_POOL_MAX,
  });
  const partners = partnerOAuth(o);
  const partnerTokens = partners && createPartnerTokenCheck(pool, partners);
  const telemetry = await startTelemetry({
    service: 'gateway',
    metricsPort: o.METRICS_PORT,
    host: o.HOST,
    otlpEndpoint: o.OTEL_EXPORTER_OTLP_ENDPOINT,
  });
  rejections.measure(telemetry.meter);
  const backend = await connectOrStop(o, { identity, telemetry });
  const mails = await mailsOrStop(o, { identity, logger, telemetry, backend, pool });
  const workers = startWorkers(pool, { logger, meter: telemetry.meter });
  return { clientIp, logger, pool, partnerTokens, telemetry, backend, workers, mails };
}

/** Starts the mails if they are configured. If that fails, closes what was opened before. */
async function mailsOrStop(
  o: GatewayOptions,
  parts: {
    readonly identity: ServiceIdentity;
    readonly logger: Logger;
    readonly telemetry: Telemetry;
    readonly backend: { close(): void };
    readonly pool: pg.Pool;
  },
): Promise<Mails | undefined> {
  const settings = mailSettings(o);
  if (!settings) return undefined;
  const { backend, pool, ...common } = parts;
  try {
    return await startMails({
      ...common,
      settings: { ...o, ...settings },
      databaseUrl: o.DATABASE_URL,
      publicUrl: o.PUBLIC_BASE_URL,
      hasPortal: signInProvider(o) !== undefined,
      webhooksTarget: o.WEBHOOKS_TARGET,
      ...(o.bus && { bus: o.bus }),
      ...(o.mailPausesMs && { mailPausesMs: o.mailPausesMs }),
    });
  } catch (error) {
    backend.close();
    await Promise.all([pool.end(), common.telemetry.stop()]);
    throw error;
  }
}

/** Creates the parts of the HTTP application. */
function assemble(
  o: GatewayOptions,
  parts: Awaited<ReturnType<typeof openParts>>,
  phase: () => Phase,
) {
  const { clientIp, logger, pool, telemetry, backend, workers } = parts;
  const limits = createLimits(o, { pool, logger, clientIp, telemetry });
  const keys = o.OAUTH_KEYRING && createOAuthKeys(pool, o.OAUTH_KEYRING);
  const issuer = o.PUBLIC_BASE_URL;
  const common = {
    ...{ pool, clientIp, logger, telemetry },
    inFlight: createInFlight({ size: o.MAX_REQUESTS_IN_FLIGHT, logger, telemetry }),
    services: backend.services,
    readReturn: createReturnReader(backend.services.returns),
    byteQuota: limits.byteQuota,
    ...measuredBudgets(telemetry.meter, budgetsOf(o)),
  };
  const used = (grantId: string) => workers.grantUsage.used(grantId);
  const mcp = createMcp({
    ...common,
    publicUrl: issuer,
    allowedOrigins: o.MCP_ALLOWED_ORIGINS,
    tokens: keys
      ? createAccessTokenCheck({ pool, issuer, resource: mcpResource(issuer), keys, used })
      : { check: async () => undefined },
    toolCalls: limits.hourlyLimits.mcpCalls,
    limits: limits.mcpLimits,
  });
  const provider = signInProvider(o);
  const oauth = createOAuth({
    ...common,
    issuer,
    limits: limits.hourlyLimits,
    clients: supportedClients(o),
    grantDays: o.MCP_GRANT_DAYS,
    formOrigins: o.SIGN_IN_FORM_ORIGINS,
    mails: parts.mails,
    ...(provider && keys && { signIn: { keys, provider } }),
  });
  const portal = createPortal({
    ...common,
    ...{ publicUrl: issuer, settings: o, provider, docs: o.DOCS_ENABLED, audit: workers.audit },
    limits: limits.hourlyLimits,
    calls: limits.portalCalls,
  });
  const deps: AppDependencies = {
    ...common,
    ...{ mcp, oauth, portal, publicUrl: issuer },
    audit: workers.audit,
    versionUsage: workers.versionUsage,
    auth: {
      apiKeys: createApiKeyCheck(pool, (keyId) => workers.keyUsage.used(keyId)),
      partnerTokens: parts.partnerTokens,
      failedCredentials: limits.failedCredentials,
    },
    restLimit: limits.restLimit,
    hourlyLimits: limits.hourlyLimits,
    restPerMinute: o.REST_PER_MINUTE,
    readiness: createReadiness(pool, phase),
    signInBodyMs: o.httpLimits?.headersMs ?? HTTP_LIMITS.headersMs,
    docs: o.DOCS_ENABLED,
    referenceSignIn: { authUrl: o.PARTNER_ISSUER, clientId: o.DOCS_OAUTH_CLIENT_ID },
  };
  return { deps, limits };
}

function budgetsOf({ bodyBudget, responseBudget, ...o }: GatewayOptions) {
  const bodies = { process: o.BODY_MIB * MIB, caller: o.BODY_MIB_PER_CALLER * MIB };
  return { bodies: { ...bodies, ...bodyBudget }, responses: responseBudget };
}

/** Connects the services; stops the telemetry when a gRPC name is malformed. */
async function connectOrStop(
  o: GatewayOptions,
  common: { readonly identity: ServiceIdentity; readonly telemetry: Telemetry },
) {
  try {
    return connectServices(targetsOf(o), common);
  } catch (error) {
    await common.telemetry.stop();
    throw error;
  }
}

/** Timeout of a statement, the same as for calls to services. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 5_000;

/** After this time the gateway is ready although a service does not answer: other operations work. Milliseconds. */
const CONNECT_MS = 10_000;

/** Maximum wait for the pool, which closes only when no connection is in use. Milliseconds. */
const CLOSE_MS = 5_000;
