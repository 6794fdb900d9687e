import type { ServerResponse } from 'node:http';
import { type ConnectRouter, createConnectRouter, createContextValues } from '@connectrpc/connect';
import { expressConnectMiddleware } from '@connectrpc/connect-express';
import { type Request, Router } from 'express';
import type { Exchange } from '../http/exchange.ts';
import type { PortalCall } from './call.ts';
import { CALL } from './call.ts';
import type { Portal } from './create.ts';
import { MAX_TIMEOUT_MS, portalGuard } from './guard.ts';
import { portalInterceptor } from './interceptors.ts';
import { portalPageRouter } from './page.ts';
import { portalRoutes } from './routes.ts';
import { invitationRoutes } from './session/invitation-routes.ts';
import { pageSignIn } from './session/page-sign-in.ts';
import { portalSignInRoutes } from './session/sign-in-routes.ts';

/** No request of the page is larger. Bytes. */
const MAX_BODY = 256 * 1024;

/**
 * Serves the portal: its API below `/portal/api`, its sign-in, and its page. Mount it before any body parser: the
 * Connect handlers read the bodies themselves, up to their own limit.
 */
export function portalRouter(
  portal: Portal,
  exchangeOf: (res: ServerResponse) => Exchange,
  calendar: () => Date,
): Router {
  const router = Router({ caseSensitive: true, strict: true });
  router.use('/portal/api', portalApi(portal, exchangeOf, calendar));
  router.use(portalSignInRoutes(portal));
  router.use(invitationRoutes(portal));
  router.use(portalPageRouter({ signInFor: pageSignIn(portal) }));
  return router;
}

function portalApi(
  portal: Portal,
  exchangeOf: (res: ServerResponse) => Exchange,
  calendar: () => Date,
): Router {
  const routes = (router: ConnectRouter): void => portalRoutes(router, portal);
  const paths = pathsOf(routes);
  const accepted = new WeakMap<Request, PortalCall>();
  const router = Router({ caseSensitive: true, strict: true });
  router.use(portalGuard({ ...portal, exchangeOf, calendar, accepted, paths }));
  router.use(
    expressConnectMiddleware({
      routes,
      connect: true,
      grpc: false,
      grpcWeb: false,
      requireConnectProtocolHeader: true,
      readMaxBytes: MAX_BODY,
      maxTimeoutMs: MAX_TIMEOUT_MS,
      interceptors: [portalInterceptor(portal)],
      contextValues: (req) => createContextValues().set(CALL, accepted.get(req)),
    }),
  );
  return router;
}

/** The paths of all methods, such as `/rms.returns.v1.ReturnsService/FindReturn`. */
function pathsOf(routes: (router: ConnectRouter) => void): ReadonlySet<string> {
  const router = createConnectRouter();
  routes(router);
  return new Set(router.handlers.map(({ requestPath }) => requestPath));
}
