import type { RequestHandler, Router } from 'express';
import { methodNotAllowed } from '../errors.ts';
import { sendContinue } from '../rest/body.ts';

export interface Endpoint {
  /** Runs for every method. */
  readonly before?: readonly RequestHandler[];
  readonly GET?: readonly RequestHandler[];
  readonly POST?: readonly RequestHandler[];
}

/** Registers one path. HEAD is served as GET, OPTIONS lists the methods, other methods get 405 with `Allow`. */
export function endpoint(router: Router, path: string, o: Endpoint): void {
  const allow = [...(o.GET ? ['GET', 'HEAD'] : []), ...(o.POST ? ['POST'] : []), 'OPTIONS'].join(
    ', ',
  );
  const route = router.route(path);
  if (o.before) route.all(...o.before);
  route.options((_req, res) => {
    res.setHeader('Allow', allow);
    res.status(204).end();
  });
  if (o.GET) {
    // Express serves HEAD with the GET handlers, as long as no HEAD handler exists.
    route.get(
      (req, _res, next) => {
        req.method = 'GET';
        next();
      },
      ...o.GET,
    );
  }
  if (o.POST) route.post(...o.POST);
  route.all((_req, res) => {
    res.setHeader('Allow', allow);
    throw methodNotAllowed(allow);
  });
}

/**
 * Sends `100 Continue` if the client waits for it. Goes before the handler that reads the body, and after every
 * handler that may reject the request without reading it.
 */
export const continueBody: RequestHandler = (req, res, next) => {
  sendContinue(req, res);
  next();
};

/** Allows scripts of any origin (CORS), without cookies: these endpoints do not use cookies. */
export function forDataClients(method: 'GET' | 'POST'): RequestHandler {
  return (req, res, next) => {
    res.setHeader('Access-Control-Allow-Origin', '*');
    res.setHeader('Access-Control-Expose-Headers', 'Retry-After, WWW-Authenticate');
    if (req.method === 'OPTIONS') {
      res.setHeader('Access-Control-Allow-Methods', method);
      // The wildcard covers every header except Authorization (Fetch, 3.3.4).
      res.setHeader('Access-Control-Allow-Headers', 'Authorization, *');
      res.setHeader('Access-Control-Max-Age', '3600');
    }
    next();
  };
}
