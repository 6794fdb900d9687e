import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code } from '@connectrpc/connect';
import { codeToString } from '@connectrpc/connect/protocol-connect';
import type { Request, RequestHandler, Response } from 'express';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { changeNotes, type ReadReturn } from '../actions/context.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { LeasedLimit } from '../auth/leased-limit.ts';
import type { RejectionReason } from '../auth/rejection.ts';
import { bodyArrived } from '../http/body-arrived.ts';
import { ClientGone } from '../http/client-gone.ts';
import { createConcurrentShare } from '../http/concurrent-share.ts';
import { markEnvironment } from '../http/environment.ts';
import type { Exchange } from '../http/exchange.ts';
import type { InFlight } from '../http/in-flight.ts';
import { sendContinue } from '../http/receive-body.ts';
import type { Services } from '../services.ts';
import type { PortalCall } from './call.ts';
import type { SessionCookie } from './session/session-cookie.ts';
import { cannotReadSession, type PortalSession, type PortalSessions } from './session/sessions.ts';

/** The page sends the shop that it shows; the call fails when the session has moved to another one. */
const SHOP_HEADER = 'portal-shop';

/**
 * The page sends `redirect`: a call without a session, or with a session at another shop, then gets a redirect, which the
 * page does not follow. Browsers report a 4xx as an error, and neither is one.
 */
const NO_SESSION_HEADER = 'portal-no-session';

/** Longest deadline that a caller may ask for. Milliseconds. */
export const MAX_TIMEOUT_MS = 30_000;

/** Maximum share of the slots for one user. */
const USER_PART = 1 / 4;

export interface GuardParts {
  readonly sessions: PortalSessions;
  readonly sessionCookie: SessionCookie;
  readonly services: Services;
  readonly readReturn: ReadReturn;
  readonly clientIp: ClientIp;
  readonly inFlight: InFlight;
  readonly publicUrl: string;
  readonly calls: LeasedLimit;
  readonly callsPerMinute: number;
  readonly exchangeOf: (res: ServerResponse) => Exchange;
  readonly calendar: () => Date;
  /** Accepted requests. */
  readonly accepted: WeakMap<Request, PortalCall>;
  /** The paths of all methods, below `/portal/api`. */
  readonly paths: ReadonlySet<string>;
}

/**
 * Checks a call before its body is read: method, path, origin, session, shop, rate, load. What the caller sends decides
 * nothing else: shop and user come from the session.
 */
export function portalGuard(o: GuardParts): RequestHandler {
  const ownOrigin = new URL(o.publicUrl).origin;
  const count = createConcurrentShare(
    Math.max(1, Math.floor(o.inFlight.sizeOf('portal') * USER_PART)),
  );
  return async (req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    const exchange = o.exchangeOf(res);
    const refusal = refusalOf(req, exchange, { paths: o.paths, ownOrigin });
    if (refusal) return reject(res, refusal);
    try {
      const session = await sessionOf(o, req);
      if (!session) {
        exchange.rejection = { reason: 'credential missing' };
        if (wantsRedirect(req)) return redirect(res, '/portal/sign-in');
        return reject(res, {
          status: 401,
          code: Code.Unauthenticated,
          text: 'Your session has ended. Sign in again.',
        });
      }
      exchange.shopId = session.shopId;
      exchange.actorId = String(session.userId);
      markEnvironment(res, session);
      if (isOtherShop(req, session)) {
        if (wantsRedirect(req)) return redirect(res, '/portal/');
        const text = `This session is now at ${session.shopName}. Load the page again.`;
        return reject(res, { status: 400, code: Code.FailedPrecondition, text });
      }
      const admission = await o.calls.take(String(session.userId), o.callsPerMinute);
      if (!admission.admitted) {
        const { retryAfterS } = admission;
        const text = `Too many requests. Try again in ${retryAfterS} s.`;
        return reject(res, { status: 429, code: Code.ResourceExhausted, text, retryAfterS });
      }
      if (res.closed) return;
      if (!count(String(session.userId), res)) return reject(res, tooManyAtOnce());
      // Before the slot, so that a body that does not arrive takes none of the slots that all shops share.
      sendContinue(req, res);
      await bodyArrived(req);
      const slot = await o.inFlight.enter('portal', exchange).catch(() => undefined);
      if (!slot) return reject(res, unavailable());
      if (res.closed) return slot.release();
      res.once('close', () => slot.release());
      o.accepted.set(req, callFor(o, { req, session, exchange }));
      next();
    } catch (error) {
      if (error instanceof ClientGone) return;
      if (!cannotReadSession(error)) throw error;
      reject(res, unavailable());
    }
  };
}

/** Returns why a request is no call by the portal's own page; undefined when it is one. */
function refusalOf(
  req: Request,
  exchange: Exchange,
  { paths, ownOrigin }: { readonly paths: ReadonlySet<string>; readonly ownOrigin: string },
): Refusal | undefined {
  if (req.method !== 'POST') {
    const text = 'Calls are POST requests.';
    return { status: 405, code: Code.Unimplemented, text, allow: 'POST' };
  }
  if (!paths.has(req.path)) {
    return { status: 404, code: Code.Unimplemented, text: 'There is no such method.' };
  }
  exchange.operation = `portal${req.path}`;
  // Connect makes a URL of it.
  if (!URL.canParse(`http://${req.headers.host}`)) {
    return { status: 400, code: Code.InvalidArgument, text: 'The Host header is not valid.' };
  }
  if (!isSameOrigin(req, ownOrigin)) {
    exchange.rejection = { reason: 'origin' satisfies RejectionReason };
    const text = "Only the portal's own page may call this.";
    return { status: 403, code: Code.PermissionDenied, text };
  }
  // Connect answers INTERNAL to a broken protobuf or compressed body, and starts the timer of a deadline before it
  // rejects it.
  if (!req.is('application/json') || req.headers['content-encoding'] !== undefined) {
    const text = 'Send the body as application/json, without Content-Encoding.';
    return { status: 415, code: Code.InvalidArgument, text };
  }
  if (Number(req.headers['connect-timeout-ms']) > MAX_TIMEOUT_MS) {
    const text = `Connect-Timeout-Ms must be at most ${MAX_TIMEOUT_MS}.`;
    return { status: 400, code: Code.InvalidArgument, text };
  }
  return undefined;
}

async function sessionOf(
  { sessions, sessionCookie }: GuardParts,
  req: Request,
): Promise<PortalSession | undefined> {
  const secret = sessionCookie.idOf(req);
  return secret === undefined ? undefined : sessions.find(secret);
}

/** The methods of the session itself work from every tab, so that the page can find out where it is. */
function isOtherShop(req: Request, session: PortalSession): boolean {
  const shown = req.headers[SHOP_HEADER];
  if (shown === undefined || req.path.startsWith('/rms.portal.v1.SessionService/')) return false;
  return shown !== String(session.shopId);
}

function callFor(
  o: GuardParts,
  { req, session, exchange }: { req: Request; session: PortalSession; exchange: Exchange },
): PortalCall {
  // Timelines show the name of the actor, so it is never the e-mail address.
  const { userId, name } = session;
  const actor = {
    kind: Actor_Kind.USER,
    id: String(userId),
    name: name ?? '',
    through: 'portal',
  };
  const { services, readReturn, publicUrl } = o;
  const { noteChanges, detail } = changeNotes();
  return {
    session,
    actor,
    from: { source: addressOf(o.clientIp, req), requestId: exchange.requestId },
    context: { services, readReturn, publicUrl, shopId: session.shopId, actor, noteChanges },
    changes: { detail },
    today: o.calendar(),
  };
}

function wantsRedirect(req: Request): boolean {
  return req.headers[NO_SESSION_HEADER] === 'redirect';
}

function redirect(res: Response, to: string): void {
  res.redirect(303, to);
  res.req.resume();
}

interface Refusal {
  readonly status: number;
  readonly code: Code;
  readonly text: string;
  readonly retryAfterS?: number;
  /** The allowed method, for the header `Allow`. */
  readonly allow?: string;
}

function unavailable(): Refusal {
  const text = 'The service is not available at the moment. Try again in a few seconds.';
  return { status: 503, code: Code.Unavailable, text, retryAfterS: 1 };
}

function tooManyAtOnce(): Refusal {
  const text = 'Too many requests of yours are open at the same time. Try again in a second.';
  return { status: 429, code: Code.ResourceExhausted, text, retryAfterS: 1 };
}

/** Answers as the Connect protocol does (Connect, Error End-Stream: unary errors are JSON). */
function reject(res: Response, { status, code, text, retryAfterS, allow }: Refusal): void {
  if (allow !== undefined) res.setHeader('Allow', allow);
  if (retryAfterS !== undefined) res.setHeader('Retry-After', String(retryAfterS));
  res.status(status).json({ code: codeToString(code), message: text });
  res.req.resume();
}

/**
 * Whether a page of this service sent the request. A browser says so in `Sec-Fetch-Site`, which no script can set. A
 * client that does not send it must send our own `Origin`.
 */
function isSameOrigin(req: IncomingMessage, ownOrigin: string): boolean {
  const { origin, 'sec-fetch-site': site } = req.headers;
  return site === undefined ? origin === ownOrigin : site === 'same-origin';
}
