import { setTimeout as sleep } from 'node:timers/promises';
import { watchRefusals } from '../services/platform/database-refusals.ts';
import { createLogger } from '../services/platform/log.ts';
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
import { measuredBudgets } from './http/body-budget.ts';
import { connectionMetrics } from './http/connections.ts';
import { createInFlight, MAX_REQUESTS_IN_FLIGHT } from './http/in-flight.ts';
import { createReadiness } from './http/probes.ts';
import { HTTP_LIMITS, type RunningHttpServer, startHttpServer } from './http/server.ts';
import { shedEarly } from './http/shed-early.ts';
import { mcpOptions } from './mcp/options.ts';
import { createMcp } from './mcp/router.ts';
import { supportedClients } from './oauth/config.ts';
import type { OAuthDependencies } from './oauth/dependencies.ts';
import { DEFAULT_GRANT_DAYS } from './oauth/issue.ts';
import { createOAuthKeys } from './oauth/keys.ts';
import { createOAuth } from './oauth/router.ts';
import type { GatewayOptions } from './options.ts';
import { connectServices } from './services.ts';
import { startWorkers } from './workers.ts';

export interface RunningGateway {
  readonly port: number;
  readonly baseUrl: string;
  readonly metricsUrl: string;
  /** Clears the counters of every rate limit. */
  resetLimits(): Promise<void>;
  /** Starts another HTTP listener, with a fixed date for the version calendar. Port 0 takes a free one. */
  listenAt(day: Date, port?: number): Promise<{ readonly url: string; stop(): Promise<void> }>;
  /**
   * Becomes unready and ends each connection after its response; waits, finishes in-flight requests (20 s) and closes.
   * May be called twice.
   */
  stop(): Promise<void>;
}

/**
 * Starts the gateway.
 *
 * With a schema that does not fit the code, the gateway runs but stays unready. While the database or a service is
 * unavailable, the operations that need it answer 503.
 *
 * @throws when a port is taken, or an option is malformed.
 */
export async function startGateway(o: GatewayOptions): Promise<RunningGateway> {
  const host = o.host ?? '127.0.0.1';
  const clientIp = createClientIp(o.trustedProxies ?? []);
  const logger = createLogger({
    service: 'gateway',
    level: o.logLevel ?? 'info',
    pretty: o.logPretty ?? false,
    ...(o.logDestination && { destination: o.logDestination }),
  });
  const refusals = watchRefusals(logger, o.databaseUrl);
  const pool = createPool(o.databaseUrl, {
    applicationName: 'gateway',
    onServerError: refusals.note,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    ...(o.poolMax !== undefined && { max: o.poolMax }),
  });
  // All options are read before anything runs or listens.
  const partnerTokens = o.partnerOAuth && createPartnerTokenCheck(pool, o.partnerOAuth);
  const telemetry = await startTelemetry({
    service: 'gateway',
    metricsPort: o.metricsPort,
    host,
    ...(o.otlpEndpoint !== undefined && { otlpEndpoint: o.otlpEndpoint }),
  });
  refusals.measure(telemetry.meter);
  const backend = await connectOrStop(o, telemetry);
  const workers = startWorkers(pool, { logger, meter: telemetry.meter });
  const state = { isStopping: false };
  const limits = createLimits(o, { pool, logger, clientIp, telemetry });
  const size = o.maxRequestsInFlight ?? MAX_REQUESTS_IN_FLIGHT;
  const common = {
    inFlight: createInFlight({ size, logger, telemetry }),
    services: backend.services,
    readReturn: createReturnReader(backend.services.returns),
    clientIp,
    logger,
    telemetry,
    byteQuota: limits.byteQuota,
    ...measuredBudgets(telemetry.meter, { bodies: o.bodyBudget, answers: o.answerBudget }),
  };
  const mcp = createMcp({
    ...common,
    ...mcpOptions(o, pool, (grantId) => workers.grantUsage.used(grantId)),
    toolCalls: limits.hourlyLimits.mcpCalls,
    limits: limits.mcpLimits,
  });
  const deps: AppDependencies = {
    ...common,
    audit: workers.audit,
    mcp,
    oauth: oauthRouter(o, { ...common, pool, limits: limits.hourlyLimits }),
    auth: {
      apiKeys: createApiKeyCheck(pool, (keyId) => workers.keyUsage.used(keyId)),
      partnerTokens,
      failedCredentials: limits.failedCredentials,
    },
    restLimit: limits.restLimit,
    hourlyLimits: limits.hourlyLimits,
    restPerMinute: o.restPerMinute ?? 300,
    readiness: createReadiness(pool, () => state.isStopping),
    signInBodyMs: o.httpLimits?.headersMs ?? HTTP_LIMITS.headersMs,
    docs: o.docs ?? true,
    authUrl: o.partnerOAuth?.issuer,
  };

  const connections = connectionMetrics(telemetry.meter);
  const servers = new Set<RunningHttpServer>();
  const listen = async (calendar: () => Date, port: number): Promise<RunningHttpServer> => {
    const app = shedEarly(deps.inFlight, calendar, createApp(deps, calendar));
    const server = await startHttpServer(app, {
      host,
      port,
      counts: connections,
      ...(o.httpLimits && { limits: o.httpLimits }),
    });
    servers.add(server);
    return server;
  };
  const close = async (): Promise<void> => {
    state.isStopping = true;
    for (const server of servers) server.endConnections();
    if (servers.size > 0 && o.shutdownDelayMs) await sleep(o.shutdownDelayMs);
    await shutDown(logger, [
      () => Promise.all([...servers].map((server) => server.stop())),
      () => Promise.all([workers.stop(), mcp.stop()]),
      () => backend.close(),
      () => within(CLOSE_MS, pool.end()),
      () => telemetry.stop(),
    ]);
  };

  const { calendar } = o;
  const main = await listen(calendar ? () => calendar : () => new Date(), o.port).catch(
    async (error: unknown) => {
      await close();
      throw error;
    },
  );
  const urlOf = (port: number): string =>
    `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`;
  logger.info({ port: main.port, metrics: telemetry.metricsUrl }, 'listening');
  let stopped: Promise<void> | undefined;
  return {
    port: main.port,
    baseUrl: o.publicUrl ?? urlOf(main.port),
    metricsUrl: telemetry.metricsUrl,
    resetLimits: () => limits.reset(),
    async listenAt(day, port = 0) {
      const server = await listen(() => day, port);
      return {
        url: urlOf(server.port),
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

/** The router for `/.well-known` and `/oauth`. */
function oauthRouter(
  o: GatewayOptions,
  shared: Pick<OAuthDependencies, 'pool' | 'logger' | 'clientIp' | 'limits' | 'bodies'>,
) {
  const { signIn: provider, oauthKeyring: keyring } = o;
  const { pool, logger, clientIp, limits, bodies } = shared;
  return createOAuth({
    pool,
    logger,
    limits,
    clientIp,
    bodies,
    issuer: o.publicUrl ?? `http://127.0.0.1:${o.port}`,
    clients: supportedClients(o),
    grantDays: o.mcpGrantDays ?? DEFAULT_GRANT_DAYS,
    formOrigins: o.signInFormOrigins ?? [],
    ...(provider && keyring && { signIn: { keys: createOAuthKeys(pool, keyring), provider } }),
  });
}

/** Connects the services; stops the telemetry when a gRPC name is malformed. */
async function connectOrStop(o: GatewayOptions, telemetry: Telemetry) {
  try {
    return connectServices(o.targets, { identity: o.identity.as('gateway'), telemetry });
  } catch (error) {
    await telemetry.stop();
    throw error;
  }
}

/** Timeout of a statement, the same as for calls to services. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 5_000;

/** Maximum wait for the pool, which closes only when its connections are not in use. Milliseconds. */
const CLOSE_MS = 5_000;
