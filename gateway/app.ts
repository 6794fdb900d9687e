import type { ServerResponse } from 'node:http';
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type Router,
} from 'express';
import { helpLink } from '../services/contract/error-help.ts';
import type { Logger } from '../services/platform/log.ts';
import type { Telemetry } from '../services/platform/telemetry.ts';
import type { HourlyLimits } from './auth/hourly-limits.ts';
import { commerceEventsRouter } from './commerce/events.ts';
import { shopifyInstall } from './commerce/shopify-install.ts';
import { shopifyWebhooks } from './commerce/shopify-webhooks.ts';
import type { ReferenceSignIn } from './docs/reference.ts';
import { HttpError, internalError, manyHosts, noHost, unknownPath } from './errors.ts';
import type { BodyBudget } from './http/body-budget.ts';
import { boundSignIn } from './http/bound-sign-in.ts';
import { docsRouter } from './http/docs.ts';
import { apiTarget, type Exchange, hostsOf, newExchange } from './http/exchange.ts';
import { addLink } from './http/help-headers.ts';
import { createInstrumentation } from './http/instrument.ts';
import { livez, type Readiness, readyz } from './http/probes.ts';
import { SECURITY_HEADERS } from './http/security-headers.ts';
import { addMcpHint } from './mcp/address-hint.ts';
import type { McpServer } from './mcp/router.ts';
import { signInPathName } from './oauth/path-names.ts';
import type { Portal } from './portal/create.ts';
import { portalRouter } from './portal/router.ts';
import { addPathHelp } from './rest/path-hint.ts';
import { restRouter } from './rest/router.ts';
import type { RestDependencies } from './rest/serve-operation.ts';

export interface AppDependencies extends RestDependencies {
  readonly telemetry: Telemetry;
  readonly readiness: () => Promise<Readiness>;
  /** Limits of the sign-in and of tool calls. */
  readonly hourlyLimits: HourlyLimits;
  readonly mcp: McpServer;
  /** Serves `/.well-known` and `/oauth`. */
  readonly oauth: Router;
  /** Serves `/portal`. */
  readonly portal: Portal;
  /** Memory for the bodies of received webhooks. */
  readonly webhookBodies: BodyBudget;
  /** Time limit for the small body of a sign-in or of a call of the portal. Milliseconds. */
  readonly smallBodyMs: number;
  /** The public base address, without a trailing slash. */
  readonly publicUrl: string;
  /** Whether all of `/docs` is served. */
  readonly docs: boolean;
  readonly referenceSignIn: ReferenceSignIn;
}

/**
 * Creates the HTTP application of the gateway. It does not listen yet.
 *
 * @param calendar returns the date that the version calendar of this HTTP listener uses.
 */
export function createApp(deps: AppDependencies, calendar: () => Date): Express {
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
    const operation = signInPathName(req.path);
    if (operation) exchangeOf(res).operation = operation;
    next();
  });
  // Before the portal, `oauth` and `shopifyInstall`, whose sign-ins it bounds together.
  app.use(boundSignIn(deps.inFlight, exchangeOf, deps.smallBodyMs));
  // Before `oauth`, which parses bodies: the handlers of the portal read their bodies themselves.
  app.use(portalRouter(deps.portal, exchangeOf, calendar));
  app.use(deps.oauth);
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
