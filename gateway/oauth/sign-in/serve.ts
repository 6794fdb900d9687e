import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import express, { type Request, type RequestHandler, type Response } from 'express';
import type pg from 'pg';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { addressOf, type ClientIp } from '../../auth/client-ip.ts';
import { createRateLimit } from '../../auth/rate-limits.ts';
import { receiveForm } from '../../http/bound-sign-in.ts';
import { isCrossSite } from '../../http/cross-site.ts';
import {
  ended,
  type PageResponse,
  RETRY_AFTER_S,
  sendPage,
  unavailable,
} from '../pages/response.ts';
import { createAuthorizationServer, type ServerProfile, SIGN_IN_TTL_S } from '../provider.ts';
import { withGrantContext } from '../tokens/grant-context.ts';
import type { OAuthKeys } from '../tokens/keys.ts';
import type { Cookies } from './cookies.ts';
import { failurePage, isUnavailable } from './failure-page.ts';
import {
  type AuthorizationRequest,
  type AuthorizationRequests,
  createRequests,
} from './requests.ts';

// What the routes of both authorization servers share.

/** An authorization server, between its routes and oidc-provider. */
export interface SignInServer {
  readonly requests: AuthorizationRequests;
  readonly cookies: Cookies;
  /** Whether a sign-in with this id exists and has not ended. */
  isPending(uid: string): Promise<boolean>;
  /** Passes the request to oidc-provider. `url` replaces its URL. */
  forward(req: IncomingMessage, res: ServerResponse, url: string): Promise<void>;
}

/** @param o.begin returns the first page for a valid authorization request. */
export function createSignInServer(o: {
  readonly profile: ServerProfile;
  readonly cookies: Cookies;
  readonly keys: OAuthKeys;
  readonly logger: Logger;
  readonly begin: (req: IncomingMessage, request: AuthorizationRequest) => Promise<PageResponse>;
}): SignInServer {
  const arrivals = new AsyncLocalStorage<number>();
  const requests = createRequests(o.profile, () => server.current());
  const server = createAuthorizationServer({
    ...o,
    arrivedMsAgo: () => performance.now() - (arrivals.getStore() ?? performance.now()),
  });
  return {
    requests,
    cookies: o.cookies,
    isPending: async (uid) => (await requests.find(uid)) !== undefined,
    async forward(req, res, url) {
      req.url = url;
      // oidc-provider has no routes for HEAD.
      if (req.method === 'HEAD') req.method = 'GET';
      // oidc-provider uses `originalUrl`, which Express sets. It must be the replaced URL, too.
      Reflect.set(req, 'originalUrl', url);
      await arrivals.run(performance.now(), () => server.handle(req, res));
    },
  };
}

const FORM_LIMIT = '8kb';
/** Maximum number of requests for pages and forms in one sign-in, so that nobody can try many e-mail addresses. */
const FORMS_PER_SIGN_IN = 30;

/** Reads a form. The request is counted before. */
export const readForm: readonly RequestHandler[] = [
  receiveForm,
  express.urlencoded({ extended: false, limit: FORM_LIMIT }),
];

interface HandlerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly clientIp: ClientIp;
  /** The public base address. */
  readonly issuer: string;
}

/** Creates the handlers of pages, and of what programs call. */
export function createHandlers(
  o: HandlerOptions,
  { cookies, isPending }: Pick<SignInServer, 'cookies' | 'isPending'>,
) {
  const ownOrigin = new URL(o.issuer).origin;
  const forms = createRateLimit({
    pool: o.pool,
    name: 'oauth-forms',
    points: FORMS_PER_SIGN_IN,
    windowS: SIGN_IN_TTL_S,
    whenUnavailable: 'reject',
  });
  /** Creates a handler that sends the page that `work` returns, or an error page. */
  const pageHandler =
    (work: (req: Request) => Promise<PageResponse>): RequestHandler =>
    async (req, res) => {
      const response = withGrantContext(fromOf(o, req, res), () => work(req));
      sendPage(res, await response.catch((error) => failurePage(error, o.logger)));
    };
  /**
   * Creates a handler like {@link pageHandler}, which first rejects a form of another browser than the one that started
   * the sign-in, of another origin, of a sign-in that is not pending, or above the limit of forms of one sign-in.
   */
  const formHandler = (work: (uid: string, req: Request) => Promise<PageResponse>) =>
    pageHandler(async (req) => {
      const uid = String(req.params.uid);
      if (cookies.interactionOf(req) !== uid || isCrossSite(req, ownOrigin)) return ended();
      // Check this before the limit counts the request. Each counter is a row, and invented ids must not create rows.
      if (!(await isPending(uid))) return ended();
      const admission = await forms.take(createHash('sha256').update(uid).digest('base64url'));
      if (admission.admitted) return work(uid, req);
      return admission.unavailable ? unavailable('Try again in a moment.') : ended();
    });
  /** Creates a handler of what programs call. An outage of the database is a 503. */
  const dataHandler =
    (work: (req: Request, res: Response) => Promise<void>): RequestHandler =>
    async (req, res) => {
      try {
        await work(req, res);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        o.logger.error({ err: error }, 'sign-in failed');
        sendUnavailable(res);
      }
    };
  /** Returns the result of `work`. When it fails, sends an error page, and returns undefined. */
  const orFailurePage = async <T>(
    res: Response,
    work: () => Promise<T>,
  ): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      sendPage(res, failurePage(error, o.logger));
      return undefined;
    }
  };
  return { pageHandler, formHandler, dataHandler, orFailurePage };
}

export type Handlers = ReturnType<typeof createHandlers>;

/**
 * Serves the path that issues the code after the user has decided. When the browser opens this URL earlier, for example
 * in another tab, it is redirected to the current page of the sign-in. Without the redirect, oidc-provider would discard
 * the sign-in and start a new one.
 */
export async function resumeOrRedirect(
  o: HandlerOptions,
  server: SignInServer,
  {
    req,
    res,
    currentPage,
  }: {
    readonly req: Request;
    readonly res: Response;
    readonly currentPage: (uid: string) => Promise<PageResponse | undefined>;
  },
): Promise<void> {
  const uid = String(req.params.uid);
  const isOwn = server.cookies.resumeOf(req) === uid;
  try {
    const page = isOwn ? await currentPage(uid) : undefined;
    if (page) return sendPage(res, page);
  } catch (error) {
    return sendPage(res, failurePage(error, o.logger));
  }
  await forwardOrFail(o, server, { req, res, url: req.path });
}

/** Passes a request to oidc-provider. When it fails before the response has begun, the browser gets an error page. */
export async function forwardOrFail(
  o: Pick<HandlerOptions, 'logger'>,
  server: SignInServer,
  { req, res, url }: { req: Request; res: Response; url: string },
): Promise<void> {
  try {
    await server.forward(req, res, url);
  } catch (error) {
    if (res.headersSent) throw error;
    sendPage(res, failurePage(error, o.logger));
  }
}

export function sendUnavailable(res: Response): void {
  const message = 'Sign-in is not available at the moment.';
  res
    .status(503)
    .setHeader('Retry-After', String(RETRY_AFTER_S))
    .json({ error: 'temporarily_unavailable', error_description: message, message, errors: {} });
}

/** The value of a form field; empty when the form lacks the field or has it twice. */
export function field(req: Request, name: string): string {
  const value: unknown = Object.hasOwn(req.body ?? {}, name) ? req.body[name] : undefined;
  return typeof value === 'string' ? value : '';
}

/** IP address and id of the request, for the audit log. */
export function fromOf(
  { clientIp }: Pick<HandlerOptions, 'clientIp'>,
  req: Request,
  res: Response,
): { readonly source: string; readonly requestId?: string } {
  return { source: addressOf(clientIp, req), ...requestIdOf(res) };
}

/** The id of the HTTP request, as in the access log. */
export function requestIdOf(res: Response): { requestId?: string } {
  const requestId = res.getHeader('X-Request-Id');
  return typeof requestId === 'string' ? { requestId } : {};
}
