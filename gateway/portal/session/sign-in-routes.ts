import express, { type Request, type RequestHandler, Router } from 'express';
import { logSeldom } from '../../../services/platform/telemetry/log-seldom.ts';
import { addressOf, type ClientIp } from '../../auth/client-ip.ts';
import type { HourlyLimits } from '../../auth/hourly-limits.ts';
import { receiveForm } from '../../http/bound-sign-in.ts';
import { EXACT_PATHS, endpoint } from '../../http/endpoint.ts';
import { queryOf } from '../../http/query.ts';
import { type PageResponse, sendPage, unavailable } from '../../oauth/pages/response.ts';
import { failurePage } from '../../oauth/sign-in/failure-page.ts';
import { SignInFailed } from '../../oauth/sign-in/upstream.ts';
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

/** Where the identity provider tells that a person signed out there. It must be registered there. */
const SIGNED_OUT_PATH = '/portal/backchannel-logout';
const FORM_LIMIT = '16kb';

/** Registers `/portal/sign-in`, `/portal/callback` and `/portal/backchannel-logout`. */
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
  endpoint(router, SIGNED_OUT_PATH, {
    POST: [receiveForm, express.urlencoded({ extended: false, limit: FORM_LIMIT }), signedOut(o)],
  });
  return router;
}

/** Answers the identity provider (OpenID Connect Back-Channel Logout 1.0, 2.8). */
function signedOut({ signIn, logger }: PortalSignInRoutes): RequestHandler {
  // Strangers may send what they like.
  const seldom = logSeldom(1_000);
  return async (req, res) => {
    res.setHeader('Cache-Control', 'no-store');
    const token: unknown = req.body?.logout_token;
    const reject = (status: number, error_description: string) =>
      res.status(status).json({ error: 'invalid_request', error_description });
    if (!signIn) return reject(404, 'Sign-in is not set up here.');
    if (typeof token !== 'string') return reject(400, 'Send logout_token once, in a form.');
    try {
      await signIn.signedOut(token);
      res.status(200).end();
    } catch (error) {
      if (!(error instanceof SignInFailed)) {
        seldom((count) => logger.warn({ err: error, count }, 'sign-outs could not be recorded'));
        res.setHeader('Retry-After', '1');
        return reject(503, 'Try again.');
      }
      const { reason } = error;
      seldom((count) => logger.warn({ reason, count }, 'logout tokens were rejected'));
      return reject(400, 'The logout token is not valid here.');
    }
  };
}
