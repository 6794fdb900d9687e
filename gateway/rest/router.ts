import type { ServerResponse } from 'node:http';
import { type ErrorRequestHandler, type RequestHandler, Router } from 'express';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { isVersion, newestActive, serve } from '../../services/contract/versions.ts';
import { HttpError, internalError, unknownPath, unknownVersion } from '../errors.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import type { Exchange } from '../http/exchange.ts';
import { addHint } from '../http/help-headers.ts';
import { addPathHelp } from './path-hint.ts';
import { sendError } from './send-error.ts';
import { operationHandler, type RestDependencies } from './serve-operation.ts';

type HandlerArguments = Parameters<RequestHandler>;

export interface RestRouting {
  readonly exchangeOf: (res: ServerResponse) => Exchange;
  /** Returns the date of the version calendar. */
  readonly calendar: () => Date;
}

/**
 * Creates the router of the REST API, for `/api`. It finds version, path and operation in this order, so an unknown
 * version is reported before an unknown path, and both before a missing key. `serve-operation.ts` makes the further
 * checks.
 */
export function restRouter(deps: RestDependencies, o: RestRouting): Router {
  const { exchangeOf, calendar } = o;
  const operations = operationRouter(deps, o);
  const serveBy = (version: string | undefined, ...[req, res, next]: HandlerArguments): unknown => {
    // Proxies and clients must not cache responses under `/api`.
    res.setHeader('Cache-Control', 'no-store');
    const found = serve(version, calendar(), req.path);
    if ('unknown' in found) {
      addPathHelp(req, res, calendar());
      return next(unknownVersion(found.unknown));
    }
    exchangeOf(res).served = found;
    if (version === undefined) {
      const newest = newestActive(calendar());
      addHint(
        res,
        `no version in the path: ${found.served} was used; name one, such as /api/${newest}`,
      );
    }
    for (const [name, value] of Object.entries(found.headers)) res.setHeader(name, value);
    return operations(req, res, next);
  };
  const handleError: ErrorRequestHandler = (error, req, res, _next) => {
    const exchange = exchangeOf(res);
    const httpError = error instanceof HttpError ? error : internalError(exchange.requestId, error);
    const version = exchange.served?.served ?? newestActive(calendar());
    return sendError(deps.logger, httpError, { req, res, exchange, version });
  };
  return Router(EXACT_PATHS)
    .use('/:version', (req, res, next) => {
      const { version } = req.params;
      return isVersion(version) ? serveBy(version, req, res, next) : next();
    })
    .use((req, res, next) => serveBy(undefined, req, res, next))
    .use(handleError);
}

/** Routes the part of the path after the version to its operation. */
function operationRouter(deps: RestDependencies, { exchangeOf, calendar }: RestRouting): Router {
  const router = Router(EXACT_PATHS);
  for (const path of new Set(OPERATIONS.map(({ path }) => path))) {
    const handlers = OPERATIONS.filter((operation) => operation.path === path).map((operation) => [
      operation.method,
      [operationHandler(deps, operation, exchangeOf)],
    ]);
    endpoint(router, path.replaceAll(/\{(\w+)\}/g, ':$1'), Object.fromEntries(handlers));
  }
  return router.use((req, res) => {
    addPathHelp(req, res, calendar());
    throw unknownPath();
  });
}
