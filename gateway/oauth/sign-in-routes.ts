import { createHash } from 'node:crypto';
import express, { type Request, type RequestHandler, type Response, Router } from 'express';
import { addressOf } from '../auth/client-ip.ts';
import { createRateLimit } from '../auth/rate-limits.ts';
import { receiveForm } from '../http/bound-sign-in.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { queryOf } from '../http/query.ts';
import { MCP_SCOPE } from './access-token.ts';
import { checkAuthorizeRequest } from './authorize-request.ts';
import { consentForm } from './consent.ts';
import { allowAnyOrigin } from './cors.ts';
import type { OAuthDependencies } from './dependencies.ts';
import { failurePage, isUnavailable } from './failure-page.ts';
import { withGrantContext } from './grant-context.ts';
import { mcpResource } from './issue.ts';
import {
  ended,
  type PageResponse,
  RETRY_AFTER_S,
  sendPage,
  unavailable,
  unknownChoice,
} from './pages/response.ts';
import { SIGN_IN_TTL_S } from './provider.ts';
import { createRevocation } from './revoke.ts';
import type { SignIn } from './sign-in.ts';
import { createSignInParts, type SignInParts } from './sign-in-parts.ts';
import { namesOnly, takePublicClient } from './token-resource.ts';

const FORM_LIMIT = '8kb';
/** Maximum number of requests for pages and forms in one sign-in, so that nobody can try many e-mail addresses. */
const FORMS_PER_SIGN_IN = 30;

type SignInConfig = NonNullable<OAuthDependencies['signIn']>;

/** Registers the paths of a sign-in, from `/oauth/authorize` to `/oauth/token`. */
export function signInRoutes(o: OAuthDependencies): Router {
  const router = Router(EXACT_PATHS);
  if (!o.signIn) return withoutSignIn(router, o);
  const parts = createSignInParts(o, o.signIn);
  const handlers = pageHandlers(o, parts);
  endpoint(router, '/oauth/authorize', {
    GET: [
      o.limits.authorize,
      async (req, res) => {
        const checked = checkAuthorizeRequest(o.clients, o.issuer, queryOf(req));
        if ('rejection' in checked) {
          const event = { ...requestIdOf(res), detail: checked.reason };
          o.logger.warn(event, 'authorization refused');
          return sendPage(res, checked.rejection);
        }
        await forwardOrFail(o, parts, { req, res, url: `/oauth/authorize?${checked.query}` });
      },
    ],
  });
  endpoint(router, '/oauth/authorize/:uid', {
    GET: [o.limits.resume, (req, res) => resumeOrRedirect(o, parts, { req, res })],
  });
  formRoutes(router, o, handlers);
  endpoint(router, '/oauth/callback', {
    GET: [
      o.limits.callback,
      handlers.pageHandler(async (req) => {
        const query = queryOf(req);
        const hasRepeated = [...new Set(query.keys())].some(
          (name) => query.getAll(name).length > 1,
        );
        if (hasRepeated) return ended();
        return parts.signIn.handleCallback(req, new URL(`${o.issuer}/oauth/callback?${query}`));
      }),
    ],
  });
  dataRoutes(router, o, { config: o.signIn, parts });
  return router;
}

/** Registers the pages and forms of a sign-in. `formHandler` protects them. */
function formRoutes(
  router: Router,
  { limits: { signInPages } }: OAuthDependencies,
  { formHandler }: ReturnType<typeof pageHandlers>,
): void {
  // Count the request before its body is read.
  const form = [
    signInPages,
    receiveForm,
    express.urlencoded({ extended: false, limit: FORM_LIMIT }),
  ];
  endpoint(router, '/oauth/sign-in/:uid', {
    GET: [signInPages, formHandler((signIn, uid) => signIn.showEmailForm(uid))],
    POST: [
      ...form,
      formHandler((signIn, uid, req) => signIn.submitEmail(req, uid, field(req, 'email'))),
    ],
  });
  endpoint(router, '/oauth/sign-in/:uid/shop', {
    POST: [
      ...form,
      formHandler((signIn, uid, req) => signIn.submitShop(req, uid, field(req, 'shop_id'))),
    ],
  });
  endpoint(router, '/oauth/sign-in/:uid/consent', {
    GET: [signInPages, formHandler((signIn, uid, req) => signIn.showConsentForm(req, uid))],
  });
  endpoint(router, '/oauth/sign-in/:uid/allow', {
    POST: [
      ...form,
      formHandler(async (signIn, uid, req) => {
        const form = consentForm.safeParse(req.body).data;
        if (!form) return unknownChoice();
        return form.consent === 'deny' ? signIn.cancel(uid) : signIn.allow(req, uid, form);
      }),
    ],
  });
  endpoint(router, '/oauth/sign-in/:uid/cancel', {
    POST: [...form, formHandler((signIn, uid) => signIn.cancel(uid))],
  });
}

/** Registers the paths that programs call: signing keys, tokens and revocation. */
function dataRoutes(
  router: Router,
  o: OAuthDependencies,
  { config, parts }: { config: SignInConfig; parts: SignInParts },
): void {
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
  endpoint(router, '/oauth/jwks', {
    before: [allowAnyOrigin('GET')],
    GET: [
      o.limits.jwks,
      dataHandler(async (_req, res) => {
        const published = await config.keys.verifying();
        res.json({ keys: published.map(({ publicJwk }) => publicJwk) });
      }),
    ],
  });
  endpoint(router, '/oauth/token', {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.token,
      receiveForm,
      dataHandler((req, res) => {
        // Errors are JSON for every client (RFC 6749, 5.2). oidc-provider would send a page to one that prefers HTML.
        req.headers.accept = 'application/json';
        const resource = mcpResource(o.issuer);
        const clientId = takePublicClient(req);
        if (!namesOnly(req, { resource, addresses: [o.issuer], scopes: [MCP_SCOPE], clientId })) {
          o.logger.warn({ ...requestIdOf(res), error: 'invalid_target' }, 'token refused');
          const error_description = `the only resource is ${resource}`;
          res.status(400).json({ error: 'invalid_target', error_description });
          return Promise.resolve();
        }
        return parts.forward(req, res, '/oauth/token');
      }),
    ],
  });
  const revoke = createRevocation({ ...o, keys: config.keys });
  endpoint(router, '/oauth/revoke', {
    before: [allowAnyOrigin('POST')],
    POST: [
      o.limits.revoke,
      receiveForm,
      express.urlencoded({ extended: false, limit: FORM_LIMIT }),
      dataHandler(async (req, res) => {
        const [token, clientId] = [field(req, 'token'), field(req, 'client_id')];
        const from = { source: addressOf(o.clientIp, req), ...requestIdOf(res) };
        const response = await revoke({ token, clientId, from });
        res.status(response.status);
        if ('body' in response) res.json(response.body);
        else res.end();
      }),
    ],
  });
}

function withoutSignIn(router: Router, o: OAuthDependencies): Router {
  endpoint(router, '/oauth/authorize', {
    GET: [
      o.limits.authorize,
      (_req, res) => sendPage(res, unavailable('Sign-in is not set up here.')),
    ],
  });
  endpoint(router, '/oauth/token', {
    before: [allowAnyOrigin('POST')],
    POST: [o.limits.token, (_req, res) => sendUnavailable(res)],
  });
  router.use('/oauth', (_req, res) => sendUnavailable(res));
  return router;
}

function pageHandlers(o: OAuthDependencies, { signIn, cookies, isPending }: SignInParts) {
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
      const from = { source: addressOf(o.clientIp, req), ...requestIdOf(res) };
      const response = withGrantContext(from, () => work(req));
      sendPage(res, await response.catch((error) => failurePage(error, o.logger)));
    };
  /**
   * Creates a handler like {@link pageHandler}, which first rejects a form of another browser than the one that started
   * the sign-in, of another origin, of a sign-in that is not pending, or above the limit of forms of one sign-in.
   */
  const formHandler = (
    work: (signIn: SignIn, uid: string, req: Request) => Promise<PageResponse>,
  ) =>
    pageHandler(async (req) => {
      const uid = String(req.params.uid);
      if (cookies.interactionOf(req) !== uid || isCrossSite(req, ownOrigin)) return ended();
      // Check this before the limit counts the request. Each counter is a row, and invented ids must not create rows.
      if (!(await isPending(uid))) return ended();
      const admission = await forms.take(createHash('sha256').update(uid).digest('base64url'));
      if (admission.admitted) return work(signIn, uid, req);
      return admission.unavailable ? unavailable('Try again in a moment.') : ended();
    });
  return { pageHandler, formHandler };
}

/**
 * Serves `/oauth/authorize/:uid`, which issues the code after the user has decided. When the browser opens this URL
 * earlier, for example in another tab, it is redirected to the current page of the sign-in. Without the redirect,
 * oidc-provider would discard the sign-in and start a new one.
 */
async function resumeOrRedirect(
  o: OAuthDependencies,
  parts: SignInParts,
  { req, res }: { req: Request; res: Response },
): Promise<void> {
  const uid = String(req.params.uid);
  const isOwn = parts.cookies.resumeOf(req) === uid;
  try {
    const page = isOwn ? await parts.signIn.currentPage(uid) : undefined;
    if (page) return sendPage(res, page);
  } catch (error) {
    return sendPage(res, failurePage(error, o.logger));
  }
  await forwardOrFail(o, parts, { req, res, url: req.path });
}

/** Passes a request to oidc-provider. When it fails before the response has begun, the browser gets an error page. */
async function forwardOrFail(
  o: OAuthDependencies,
  parts: SignInParts,
  { req, res, url }: { req: Request; res: Response; url: string },
): Promise<void> {
  try {
    await parts.forward(req, res, url);
  } catch (error) {
    if (res.headersSent) throw error;
    sendPage(res, failurePage(error, o.logger));
  }
}

function sendUnavailable(res: Response): void {
  const message = 'Sign-in is not available at the moment.';
  res
    .status(503)
    .setHeader('Retry-After', String(RETRY_AFTER_S))
    .json({ error: 'temporarily_unavailable', error_description: message, message, errors: {} });
}

/** The value of a form field; empty when the form lacks the field or has it twice. */
function field(req: Request, name: string): string {
  const value: unknown = Object.hasOwn(req.body ?? {}, name) ? req.body[name] : undefined;
  return typeof value === 'string' ? value : '';
}

/**
 * Whether the browser reports that another site sent the form. The `Lax` cookies already protect against such forms;
 * this is a second protection. `Sec-Fetch-Site` decides when it is present, because some browsers send `Origin: null`.
 */
function isCrossSite(req: Request, ownOrigin: string): boolean {
  if (req.method !== 'POST') return false;
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (site !== undefined && site !== 'same-origin') return true;
  const isHidden = origin === 'null' && site === 'same-origin';
  return origin !== undefined && origin !== ownOrigin && !isHidden;
}

/** The id of the HTTP request, as in the access log. */
function requestIdOf(res: Response): { requestId?: string } {
  const requestId = res.getHeader('X-Request-Id');
  return typeof requestId === 'string' ? { requestId } : {};
}
