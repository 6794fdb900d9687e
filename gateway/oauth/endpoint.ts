import type { RequestHandler, Router } from 'express';
import { methodNotAllowed } from '../errors.ts';
import { askForBody } from '../rest/body.ts';

export interface Endpoint {
  /** Runs for every method. */
  readonly before?: readonly RequestHandler[];
  readonly GET?: readonly RequestHandler[];
  readonly POST?: readonly RequestHandler[];
}

/** One path: HEAD is served as GET, OPTIONS says what there is, all else is 405 with `Allow`. */
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
    // A handler for HEAD itself would keep the router from serving it as GET.
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

/** Before whatever reads a body, and after whatever may refuse to. */
export const bodyWanted: RequestHandler = (req, res, next) => {
  askForBody(req, res);
  next();
};

/** Lets scripts of any origin in, without cookies: metadata and tokens are for whoever may have them. */
export function forDataClients(method: 'GET' | 'POST'): RequestHandler {
  return (req, res, next) => {
    res.setHeader('Access-Control-Allow-Origin', '*');
    res.setHeader('Access-Control-Expose-Headers', 'Retry-After, WWW-Authenticate');
    if (req.method === 'OPTIONS') {
      res.setHeader('Access-Control-Allow-Methods', method);
      // The wildcard covers every header but this one (Fetch, 3.3.4).
      res.setHeader('Access-Control-Allow-Headers', 'Authorization, *');
      res.setHeader('Access-Control-Max-Age', '3600');
    }
    next();
  };
}
