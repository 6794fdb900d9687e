import type { ServerResponse } from 'node:http';
import { type ErrorRequestHandler, type RequestHandler, Router } from 'express';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { isVersion, newestActive, serve } from '../../services/contract/versions.ts';
import { HttpRefusal, internalError, unknownPath, unknownVersion } from '../errors.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import type { Exchange } from '../http/exchange.ts';
import { operationHandler, type RestDependencies } from './operation.ts';
import { sendRefusal } from './refusal.ts';

type Handled = Parameters<RequestHandler>;

export interface RestRouting {
  readonly exchangeOf: (res: ServerResponse) => Exchange;
  /** Returns the date of the version calendar. */
  readonly calendar: () => Date;
}

/**
 * The REST API, to be mounted at `/api`. Finds version, path and operation in this order: an unknown version is reported
 * before an unknown path.
 */
export function restRouter(deps: RestDependencies, o: RestRouting): Router {
  const { exchangeOf, calendar } = o;
  const operations = operationRouter(deps, exchangeOf);
  const serveBy = (version: string | undefined, ...[req, res, next]: Handled): unknown => {
    // Proxies and clients must not cache responses under `/api`.
    res.setHeader('Cache-Control', 'no-store');
    const found = serve(version, calendar(), req.path);
    if ('unknown' in found) return next(unknownVersion(found.unknown));
    exchangeOf(res).served = found;
    for (const [name, value] of Object.entries(found.headers)) res.setHeader(name, value);
    return operations(req, res, next);
  };
  const refuse: ErrorRequestHandler = (error, req, res, _next) => {
    const exchange = exchangeOf(res);
    const refusal = error instanceof HttpRefusal ? error : internalError(exchange.requestId, error);
    const version = exchange.served?.served ?? newestActive(calendar());
    return sendRefusal(deps.logger, refusal, { req, res, exchange, version });
  };
  return Router(EXACT_PATHS)
    .use('/:version', (req, res, next) => {
      const { version } = req.params;
      return isVersion(version) ? serveBy(version, req, res, next) : next();
    })
    .use((req, res, next) => serveBy(undefined, req, res, next))
    .use(refuse);
}

/** The paths after the version, from the table of operations. */
function operationRouter(
  deps: RestDependencies,
  exchangeOf: (res: ServerResponse) => Exchange,
): Router {
  const router = Router(EXACT_PATHS);
  for (const path of new Set(OPERATIONS.map((one) => one.path))) {
    const handlers = OPERATIONS.filter((one) => one.path === path).map((one) => [
      one.method,
      [operationHandler(deps, one, exchangeOf)],
    ]);
    endpoint(router, path.replaceAll(/\{(\w+)\}/g, ':$1'), Object.fromEntries(handlers));
  }
  return router.use(() => {
    throw unknownPath();
  });
}
