import type { ServerResponse } from 'node:http';
import express, { type ErrorRequestHandler, type Express, type Router } from 'express';
import type { Telemetry } from '../services/platform/telemetry.ts';
import type { HourlyLimits } from './auth/hourly-limits.ts';
import { HttpRefusal, internalError, manyHosts, noHost, unknownPath } from './errors.ts';
import { boundSignIn } from './http/bound-sign-in.ts';
import { docsRouter } from './http/docs.ts';
import { type Exchange, hostsOf } from './http/exchange.ts';
import { createInstrumentation } from './http/instrument.ts';
import { livez, type Readiness, readyz } from './http/probes.ts';
import { SECURITY_HEADERS } from './http/security-headers.ts';
import type { McpServer } from './mcp/router.ts';
import { oauthOperation } from './oauth/operations.ts';
import { createRest, type RestDependencies } from './rest/rest.ts';

export interface AppDependencies extends RestDependencies {
  readonly telemetry: Telemetry;
  readonly readiness: () => Promise<Readiness>;
  /** Limits of the sign-in and of tool calls. */
  readonly hourlyLimits: HourlyLimits;
  readonly mcp: McpServer;
  /** Serves `/.well-known` and `/oauth`. */
  readonly oauth: Router;
  /** Time limit for the body of a sign-in request; see `boundSignIn`. Milliseconds. */
  readonly signInBodyMs: number;
  /** Whether `/docs` is served. */
  readonly docs: boolean;
  /** The partners' authorization server (`{auth_url}`); undefined when there is none. */
  readonly authUrl: string | undefined;
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

  const instrument = createInstrumentation(deps);
  const rest = createRest(deps, calendar);
  const exchanges = new WeakMap<ServerResponse, Exchange>();

  app.use((req, res, next) => {
    res.setHeaders(SECURITY_HEADERS);
    return instrument(req, res, async (exchange) => {
      exchanges.set(res, exchange);
      const hosts = hostsOf(req);
      if (hosts > 1) return next(manyHosts());
      if (req.httpVersion === '1.1' && hosts === 0) return next(noHost());
      if (!(await rest(req, res, exchange))) next();
    });
  });
  app.get('/livez', livez);
  app.get('/readyz', readyz(deps.readiness));
  app.use((req, res, next) => {
    const exchange = exchanges.get(res);
    const operation = oauthOperation(req.path);
    if (exchange && operation) exchange.operation = operation;
    next();
  });
  app.use(boundSignIn(deps.inFlight, (res) => exchanges.get(res), deps.signInBodyMs));
  app.use(deps.oauth);
  app.use(deps.mcp.router((res) => exchanges.get(res), calendar));
  app.use(docsRouter(calendar, { page: deps.docs, authUrl: deps.authUrl }));
  app.use(() => {
    throw unknownPath();
  });
  app.use(errorHandler(deps, exchanges));
  return app;
}

function errorHandler(
  deps: AppDependencies,
  exchanges: WeakMap<ServerResponse, Exchange>,
): ErrorRequestHandler {
  return (error, req, res, _next) => {
    if (res.headersSent) {
      res.destroy();
      return;
    }
    const requestId = exchanges.get(res)?.requestId ?? '';
    const refusal = refusalOf(error, requestId);
    if (refusal.error.status >= 500) {
      deps.logger.error({ err: refusal.cause, requestId }, 'request failed');
    }
    res
      .status(refusal.error.status)
      .setHeader('Cache-Control', 'no-store')
      .json(refusal.error.body);
    req.resume();
  };
}

/** Errors of Express itself concern the path, for example malformed percent signs; they become 404. */
function refusalOf(error: unknown, requestId: string): HttpRefusal {
  if (error instanceof HttpRefusal) return error;
  const status: unknown = error instanceof Error ? Reflect.get(error, 'status') : undefined;
  const isClients = typeof status === 'number' && status >= 400 && status < 500;
  return isClients ? unknownPath() : internalError(requestId, error);
}
