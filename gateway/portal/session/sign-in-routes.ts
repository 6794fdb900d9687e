import { type Request, type RequestHandler, Router } from 'express';
import { addressOf, type ClientIp } from '../../auth/client-ip.ts';
import type { HourlyLimits } from '../../auth/hourly-limits.ts';
import { EXACT_PATHS, endpoint } from '../../http/endpoint.ts';
import { queryOf } from '../../http/query.ts';
import { type PageResponse, sendPage, unavailable } from '../../oauth/pages/response.ts';
import { failurePage } from '../../oauth/sign-in/failure-page.ts';
import type { PortalSignIn, PortalSignInParts } from './sign-in.ts';
import { signInMessage } from './sign-in-messages.ts';

export interface PortalSignInRoutes extends Pick<PortalSignInParts, 'logger'> {
  readonly limits: HourlyLimits;
  readonly clientIp: ClientIp;
  readonly publicUrl: string;
  /** Undefined when no identity provider is configured. */
  readonly signIn: PortalSignIn | undefined;
}

/** The path to which the identity provider sends the browser back. It must be registered there. */
export const PORTAL_CALLBACK_PATH = '/portal/callback';

/** Registers `/portal/sign-in` and `/portal/callback`. */
export function portalSignInRoutes(o: PortalSignInRoutes): Router {
  const router = Router(EXACT_PATHS);
  const pageHandler =
    (
      work: (signIn: PortalSignIn, req: Request, requestId: string) => Promise<PageResponse>,
    ): RequestHandler =>
    async (req, res) => {
      res.setHeader('Cache-Control', 'no-store');
      if (!o.signIn) return sendPage(res, unavailable('Sign-in is not set up here.'));
      const shown = work(o.signIn, req, String(res.getHeader('X-Request-Id')));
      sendPage(
        res,
        await shown.catch((error: unknown) =>
          failurePage(error, o.logger, 'Open the portal again.'),
        ),
      );
    };
  endpoint(router, '/portal/sign-in', {
    GET: [o.limits.portalSignIn, pageHandler((signIn, req) => signIn.begin(req, queryOf(req)))],
  });
  endpoint(router, PORTAL_CALLBACK_PATH, {
    GET: [
      o.limits.portalCallback,
      pageHandler(async (signIn, req, requestId) => {
        const query = queryOf(req);
        const names = [...query.keys()];
        if (new Set(names).size < names.length) return signInMessage('ended');
        const url = new URL(`${o.publicUrl}${PORTAL_CALLBACK_PATH}?${query}`);
        return signIn.finish(req, url, { source: addressOf(o.clientIp, req), requestId });
      }),
    ],
  });
  return router;
}
