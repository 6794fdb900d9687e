import express, { type Request, type RequestHandler, type Response, Router } from 'express';
import { addressOf, type ClientIp } from '../../auth/client-ip.ts';
import type { HourlyLimits } from '../../auth/hourly-limits.ts';
import { receiveForm } from '../../http/bound-sign-in.ts';
import { isCrossSite } from '../../http/cross-site.ts';
import { EXACT_PATHS, endpoint } from '../../http/endpoint.ts';
import { queryOf } from '../../http/query.ts';
import { type PageResponse, redirect, sendPage, unavailable } from '../../oauth/pages/response.ts';
import { failurePage } from '../../oauth/sign-in/failure-page.ts';
import { INVITATION_PATH } from '../../tenancy/invitations.ts';
import type { InvitationSteps } from './invitation.ts';
import {
  INVITATION_ACCEPT_PATH,
  INVITATION_SIGN_IN_PATH,
  problemPage,
} from './invitation-pages.ts';
import type { From } from './session-starter.ts';
import type { PortalSignIn, PortalSignInParts } from './sign-in.ts';

export interface InvitationRoutes extends Pick<PortalSignInParts, 'logger'> {
  readonly limits: HourlyLimits;
  readonly clientIp: ClientIp;
  readonly publicUrl: string;
  /** Both are undefined when no identity provider is configured. */
  readonly signIn: PortalSignIn | undefined;
  readonly invitations: InvitationSteps | undefined;
}

const FORM_LIMIT = '8kb';

interface Steps {
  readonly signIn: PortalSignIn;
  readonly invitations: InvitationSteps;
}

/** Registers `/portal/invitation` and what is below it. They need no session. */
export function invitationRoutes(o: InvitationRoutes): Router {
  const router = Router(EXACT_PATHS);
  const ownOrigin = new URL(o.publicUrl).origin;
  const pageHandler =
    (work: (steps: Steps, req: Request, from: From) => Promise<PageResponse>): RequestHandler =>
    async (req, res) => {
      res.setHeader('Cache-Control', 'no-store');
      const { signIn, invitations } = o;
      if (!signIn || !invitations) {
        return sendPage(res, unavailable('Sign-in is not set up here.'));
      }
      if (isCrossSite(req, ownOrigin)) return sendPage(res, problemPage('unknown'));
      const shown = work({ signIn, invitations }, req, fromOf(o, req, res));
      const again = 'Open the link in the mail again.';
      sendPage(res, await shown.catch((error: unknown) => failurePage(error, o.logger, again)));
    };
  const { portalInvitation: limit } = o.limits;
  // Count the request before its body is read.
  const form = [limit, receiveForm, express.urlencoded({ extended: false, limit: FORM_LIMIT })];
  endpoint(router, INVITATION_PATH, {
    GET: [limit, pageHandler(({ invitations }, req) => invitations.show(req))],
    POST: [...form, pageHandler(({ invitations }, req) => invitations.open(codeOf(req)))],
  });
  endpoint(router, INVITATION_SIGN_IN_PATH, {
    GET: [
      limit,
      pageHandler(async ({ signIn, invitations }, req) => {
        const invitation = await invitations.openedBy(req);
        if (invitation === undefined) return redirect(INVITATION_PATH);
        return signIn.begin(req, queryOf(req), { invitation });
      }),
    ],
  });
  endpoint(router, INVITATION_ACCEPT_PATH, {
    POST: [...form, pageHandler(({ invitations }, req, from) => invitations.accept(req, from))],
  });
  return router;
}

function fromOf({ clientIp }: InvitationRoutes, req: Request, res: Response): From {
  return { source: addressOf(clientIp, req), requestId: String(res.getHeader('X-Request-Id')) };
}

/** The field `code` of the form; empty when the form lacks it or has it twice. */
function codeOf({ body }: Request): string {
  const code: unknown = Object.hasOwn(body ?? {}, 'code') ? body.code : undefined;
  return typeof code === 'string' ? code : '';
}
