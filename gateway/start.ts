import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type ErrorRequestHandler, type Express, type Request } from 'express';
import { helpLink } from '../services/contract/error-help.ts';
import { shutDown } from '../services/platform/process/shutdown.ts';
import { within } from '../services/platform/process/within.ts';
import type { Logger } from '../services/platform/telemetry/log.ts';
import { createReturnReader } from './actions/returns.ts';
import { createApiKeyCheck } from './auth/api-key-check.ts';
import { createByteQuota } from './auth/byte-quota.ts';
import { createHourlyLimits } from './auth/hourly-limits.ts';
import { createLeasedLimit } from './auth/leased-limit.ts';
import { createMcpLimits } from './auth/mcp-limits.ts';
import { createRateLimit } from './auth/rate-limits.ts';
import { shopifyInstall } from './commerce/shopify-install.ts';
import { commerceEventsRouter, shopifyWebhooks } from './commerce/webhooks.ts';
import { docsRouter } from './docs/router.ts';
import { HttpError, internalError, manyHosts, noHost, unknownPath } from './errors.ts';
import { measuredBudgets } from './http/body-budget.ts';
import { boundSignIn, formPathName } from './http/bound-sign-in.ts';
import { apiTarget, type Exchange, hostsOf, newExchange } from './http/exchange.ts';
import { addLink } from './http/help-headers.ts';
import { createInFlight } from './http/in-flight.ts';
import { createInstrumentation } from './http/instrument.ts';
import { type ProbePort, startProbePort } from './http/probe-port.ts';
import { createReadiness, livez, type Phase, readyz } from './http/probes.ts';
import { SECURITY_HEADERS } from './http/security-headers.ts';
import { connectionMetrics, type RunningHttpServer, startHttpServer } from './http/server.ts';
import { shedEarly } from './http/shed-early.ts';
import { addMcpHint } from './mcp/http/address-hint.ts';
import { createMcp } from './mcp/router.ts';
import { signInProvider, supportedClients } from './oauth/config.ts';
import { partnerIssuer } from './oauth/partners/address.ts';
import { createOAuth } from './oauth/router.ts';
import { createAccessTokenCheck } from './oauth/tokens/access-token.ts';
import { withGrantContext } from './oauth/tokens/grant-context.ts';
import { mcpResource } from './oauth/tokens/issue.ts';
import { createOAuthKeys } from './oauth/tokens/keys.ts';
import { type GatewayOptions, type OpenedParts, openParts } from './open-parts.ts';
import { createPortal } from './portal/create.ts';
import { portalRouter } from './portal/router.ts';
import { addPathHelp } from './rest/hints.ts';
import { KEYS_AT_ONCE, restRouter } from './rest/serve-operation.ts';
import { createLookUpLimits } from './shopper/limits.ts';
import { shopperRouter } from './shopper/router.ts';

export interface RunningGateway {
  readonly port: number;
  /** Where this process listens. */
  readonly baseUrl: string;
  readonly metricsUrl: string;
  /** The port of the probes; absent when there is none. */
  readonly healthPort?: number;
  /** Clears the counters of every rate limit. */
  resetLimits(): Promise<void>;
  /** Starts another HTTP listener, with a fixed date for the version calendar. Port 0 takes a free one. */
  listenAt(day: Date, port?: number): Promise<{ readonly url: string; stop(): Promise<void> }>;
  /**
   * Becomes unready, and ends each connection after its response. After `SHUTDOWN_DELAY_MS` it accepts no connections,
   * finishes the in-flight requests and mails within 20 s, and closes everything. May be called twice.
   */
  stop(): Promise<void>;
}

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
  let probes: ProbePort | undefined;
  const close = async (): Promise<void> => {
    state.phase = 'stopping';
    for (const server of servers) server.endConnections();
    if (servers.size > 0 && o.SHUTDOWN_DELAY_MS > 0) await sleep(o.SHUTDOWN_DELAY_MS);
    // The mails stop beside the requests, so that Kubernetes does not kill the process before its stop ends. A request
    // only stores mails.
    const mails = opened.mails?.stop();
    mails?.catch(() => {}); // The step below logs it.
    await shutDown(logger, [
      () => Promise.all([...servers].map((server) => server.stop())),
      () => Promise.all([opened.workers.stop(), deps.mcp.stop()]),
      () => mails,
      () => opened.backend.close(),
      () => within(CLOSE_MS, opened.pool.end()),
      () => telemetry.stop(),
      () => probes?.stop(),
    ]);
  };

  const start = async (): Promise<RunningHttpServer> => {
    const { HOST: host, HEALTH_PORT: port } = o;
    if (port !== undefined) {
      probes = await startProbePort({ host, port, readiness: deps.readiness, logger });
    }
    return listen(() => o.API_CALENDAR ?? new Date(), o.PORT);
  };
  const main = await start().catch(async (error: unknown) => {
    await close();
    throw error;
  });
  logger.info({ port: main.port, metrics: telemetry.metricsUrl }, 'listening');
  let stopped: Promise<void> | undefined;
  return {
    port: main.port,
    baseUrl: urlOf(o.HOST, main.port),
    metricsUrl: telemetry.metricsUrl,
    ...(probes && { healthPort: probes.port }),
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

/** After this time the gateway is ready although a service does not answer: other operations work. Milliseconds. */
const CONNECT_MS = 10_000;

/** Maximum wait for the pool, which closes only when no connection is in use. Milliseconds. */
const CLOSE_MS = 5_000;

/** Creates the parts of the HTTP application. */
function assemble(o: GatewayOptions, parts: OpenedParts, phase: () => Phase) {
  const { clientIp, logger, pool, telemetry, backend, workers } = parts;
  const limits = createLimits(o, parts);
  const { hourlyLimits } = limits;
  const issuer = o.PUBLIC_BASE_URL;
  const keys = o.OAUTH_KEYRING && createOAuthKeys(pool, o.OAUTH_KEYRING);
  const provider = signInProvider(o);
  const { partnerKeys } = parts;
  const servesPartners = o.PARTNER_ISSUER === undefined;
  const common = {
    pool,
    clientIp,
    logger,
    telemetry,
    publicUrl: issuer,
    docs: o.DOCS_ENABLED,
    audit: workers.audit,
    inFlight: createInFlight({ size: o.MAX_REQUESTS_IN_FLIGHT, logger, telemetry }),
    services: backend.services,
    readReturn: createReturnReader(backend.services.returns),
    byteQuota: limits.byteQuota,
    ...measuredBudgets(telemetry.meter, budgetsOf(o)),
  };
  const { used } = workers.grantUsage;
  const clients = supportedClients(o);
  const mcp = createMcp({
    ...common,
    allowedOrigins: o.MCP_ALLOWED_ORIGINS,
    tokens: keys
      ? createAccessTokenCheck({ pool, issuer, resource: mcpResource(issuer), keys, clients, used })
      : { check: async () => undefined },
    toolCalls: hourlyLimits.mcpCalls,
    limits: limits.mcpLimits,
  });
  const oauth = createOAuth({
    ...common,
    issuer,
    limits: hourlyLimits,
    clients,
    grantDays: o.MCP_GRANT_DAYS,
    formOrigins: o.SIGN_IN_FORM_ORIGINS,
    mails: parts.mails,
    servesPartners,
    ...(provider && keys && partnerKeys && { signIn: { keys, partnerKeys, provider } }),
  });
  const { lookUps } = limits;
  const shopper = {
    ...common,
    limits: hourlyLimits,
    lookUps,
    keyring: o.OAUTH_KEYRING,
    mails: parts.mails,
  };
  const calls = limits.portalCalls;
  const portal = createPortal({
    ...common,
    settings: o,
    provider,
    limits: hourlyLimits,
    calls,
    mails: parts.mails,
  });
  const deps = {
    ...common,
    mcp,
    oauth,
    portal,
    shopper,
    hourlyLimits,
    versionUsage: workers.versionUsage,
    auth: {
      apiKeys: createApiKeyCheck(pool, workers.keyUsage.used),
      partnerTokens: parts.partnerTokens,
      failedCredentials: limits.failedCredentials,
    },
    restLimit: limits.restLimit,
    shopLimit: limits.shopLimit,
    restPerMinute: o.REST_PER_MINUTE,
    readiness: createReadiness(pool, phase),
    referenceSignIn: {
      authUrl: o.PARTNER_ISSUER ?? partnerIssuer(issuer),
      clientId: o.DOCS_OAUTH_CLIENT_ID,
    },
  };
  return { deps, limits };
}

function budgetsOf({ bodyBudget, responseBudget, ...o }: GatewayOptions) {
  const bodies = { process: o.BODY_MIB * MIB, caller: o.BODY_MIB_PER_CALLER * MIB };
  return { bodies: { ...bodies, ...bodyBudget }, responses: responseBudget };
}

const MIB = 1024 * 1024;

type AppDependencies = ReturnType<typeof assemble>['deps'];

/**
 * Creates the HTTP application of the gateway. It does not listen yet.
 *
 * @param calendar returns the date that the version calendar of this HTTP listener uses.
 */
function createApp(deps: AppDependencies, calendar: () => Date): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').disable('query parser');
  app.enable('case sensitive routing').enable('strict routing');

  const exchanges = new WeakMap<ServerResponse, Exchange>();
  const exchangeOf = (res: ServerResponse): Exchange => {
    const exchange = exchanges.get(res);
    if (!exchange) throw new Error('the request has no exchange');
    return exchange;
  };
  const observe = createInstrumentation(deps);

  // First: everything below, and the error handler at the end, needs the exchange of the request.
  app.use((req, res, next) => {
    const exchange = newExchange(req, deps.clientIp);
    exchanges.set(res, exchange);
    res.setHeaders(SECURITY_HEADERS).setHeader('X-Request-Id', exchange.requestId);
    req.url = apiTarget(req.url);
    observe(exchange, req, res, () => next(hostError(req)));
  });
  // Express tries the routes in this order, and most requests are calls of the API. The router of the API answers each
  // of them, errors included.
  app.use('/api', restRouter(deps, { exchangeOf, calendar }));
  app.use(commerceEventsRouter(deps, exchangeOf));
  // Behind the API only because probes are rarer. They need nothing but the exchange.
  app.get('/livez', livez);
  app.get('/readyz', readyz(deps.readiness));
  // Like the events above, it checks the signature of the body as it arrived: no parser may come before it.
  app.use(shopifyWebhooks(deps, exchangeOf));
  // Before `boundSignIn`, which counts the requests that have an operation by then: those of sign-ins and installs.
  app.use((req, res, next) => {
    const operation = formPathName(req.path);
    if (!operation) return next();
    const exchange = exchangeOf(res);
    exchange.operation = operation;
    const { address: source, requestId } = exchange;
    withGrantContext({ source, requestId }, next);
  });
  // Before the portal, `oauth` and `shopifyInstall`, whose sign-ins it bounds together.
  app.use(boundSignIn(deps.inFlight, exchangeOf));
  // Before `oauth`, which parses bodies: the handlers of the portal read their bodies themselves.
  app.use(portalRouter(deps.portal, exchangeOf, calendar));
  app.use(deps.oauth);
  app.use(shopperRouter(deps.shopper));
  app.use(shopifyInstall({ ...deps, limits: deps.hourlyLimits }));
  app.use(deps.mcp.router(exchangeOf, calendar));
  // No order among the next two: their paths differ.
  app.use(
    docsRouter(calendar, {
      page: deps.docs,
      publicUrl: deps.publicUrl,
      signIn: deps.referenceSignIn,
    }),
  );
  // Behind every route, because it answers each request that arrives here.
  app.use((req, res) => {
    addPathHelp(req, res, calendar());
    addMcpHint(req, res, deps.publicUrl);
    throw unknownPath();
  });
  // Register this handler last, because Express passes an error only to handlers after the one that threw.
  app.use(errorHandler(deps.logger, exchangeOf));
  return app;
}

/** RFC 9112, 3.2: a request has exactly one Host header; a request of HTTP/1.0 may have none. */
function hostError(req: Request): HttpError | undefined {
  const hosts = hostsOf(req);
  if (hosts > 1) return manyHosts();
  return req.httpVersion === '1.1' && hosts === 0 ? noHost() : undefined;
}

function errorHandler(
  logger: Logger,
  exchangeOf: (res: ServerResponse) => Exchange,
): ErrorRequestHandler {
  return (error, req, res, _next) => {
    if (res.headersSent) {
      res.destroy();
      return;
    }
    const { requestId } = exchangeOf(res);
    const httpError = httpErrorOf(error, requestId);
    if (httpError.error.status >= 500) {
      logger.error({ err: httpError.cause, requestId }, 'request failed');
    }
    for (const [name, value] of Object.entries(httpError.headers)) res.setHeader(name, value);
    addLink(res, helpLink(httpError.error.problem.code));
    res
      .status(httpError.error.status)
      .setHeader('Cache-Control', 'no-store')
      .json(httpError.error.body);
    req.resume();
  };
}

/** Express throws 4xx errors only for malformed paths, such as `/%`; they become 404. */
function httpErrorOf(error: unknown, requestId: string): HttpError {
  if (error instanceof HttpError) return error;
  const status: unknown = error instanceof Error ? Reflect.get(error, 'status') : undefined;
  const isClientError = typeof status === 'number' && status >= 400 && status < 500;
  return isClientError ? unknownPath() : internalError(requestId, error);
}

const FAILED_CREDENTIALS_WINDOW_S = 60;

/** Creates all limits of a gateway, with the sizes in its options. */
function createLimits(o: GatewayOptions, { pool, logger, clientIp, telemetry }: OpenedParts) {
  const { meter } = telemetry;
  const timeoutMs = o.limitTimeoutMs;
  // Requests per minute of an API key or an app: the key's own number, or REST_PER_MINUTE (`config.ts`).
  // `rest/serve-operation.ts` counts them; `rateLimited` makes the response to a request above the limit.
  const restLimit = createLeasedLimit(pool, logger, { timeoutMs });
  // As large a lease as that of one key.
  const shopLimit = createLeasedLimit(pool, logger, {
    ...{ name: 'shop', leaseDivisor: 10 * KEYS_AT_ONCE, timeoutMs },
  });
  const mibPerDay = o.SHOP_MIB_PER_DAY;
  const byteQuota = createByteQuota({ pool, logger, meter, mibPerDay, timeoutMs });
  const mcpLimits = createMcpLimits({ pool, logger, sizes: o, timeoutMs });
  // Calls per minute of one user of the portal.
  const portalCalls = createLeasedLimit(pool, logger, { name: 'portal-calls', timeoutMs });
  const hourlyLimits = createHourlyLimits({ pool, clientIp, sizes: o });
  const lookUps = createLookUpLimits(pool, hourlyLimits.shopperLookUps);
  const failedCredentials = createRateLimit({
    pool,
    name: 'failed-credentials',
    points: o.FAILED_CREDENTIALS_PER_MINUTE,
    windowS: FAILED_CREDENTIALS_WINDOW_S,
  });
  return {
    restLimit,
    shopLimit,
    failedCredentials,
    hourlyLimits,
    lookUps,
    mcpLimits,
    portalCalls,
    byteQuota,
    async reset(): Promise<void> {
      await pool.query('delete from rate_limits');
      restLimit.reset();
      shopLimit.reset();
      failedCredentials.reset();
      hourlyLimits.reset();
      lookUps.reset();
      mcpLimits.reset();
      portalCalls.reset();
      byteQuota.reset();
    },
  };
}
