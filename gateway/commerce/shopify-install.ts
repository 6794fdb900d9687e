import { Code, ConnectError } from '@connectrpc/connect';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import {
  type CompleteShopifyInstallResponse,
  ShopifyInstallProblem as Problem,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { systemActor } from '../../services/platform/security/identity.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { HourlyLimits } from '../auth/hourly-limits.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { rawQueryOf } from '../http/query.ts';
import { messagePage } from '../oauth/pages/pages.ts';
import {
  type PageResponse,
  page,
  redirect,
  sendPage,
  unavailable,
} from '../oauth/pages/response.ts';
import { cookieOf } from '../oauth/sign-in/cookies.ts';
import type { Portal } from '../portal/create.ts';
import { cannotReadSession } from '../portal/session/sessions.ts';
import type { Services } from '../services.ts';
import { recordAudit } from '../tenancy/audit.ts';

interface ShopifyInstallDependencies {
  /** Who is signed in to the portal in the browser. */
  readonly portal: Pick<Portal, 'sessions' | 'sessionCookie'>;
  readonly services: Pick<Services, 'commerce'>;
  readonly pool: Queryable;
  readonly logger: Logger;
  readonly clientIp: ClientIp;
  readonly limits: HourlyLimits;
  /** The public base address, to which Shopify redirects browsers. */
  readonly publicUrl: string;
}

const CALLBACK = '/commerce/shopify/callback';
/** Lifetime of the cookie. An install link is valid for the same time. Seconds. */
const COOKIE_S = 15 * 60;
/**
 * Time limit of the call that completes an install. It is longer than the returns service waits for Shopify.
 * Milliseconds.
 */
const COMPLETE_MS = 15_000;

/**
 * The pages with which a merchant connects a shop to its store at Shopify (docs/commerce-shopify-install.md). The returns
 * service checks everything; the gateway forwards the query, and binds the install to the browser by a cookie.
 */
export function shopifyInstall(o: ShopifyInstallDependencies): Router {
  const router = Router(EXACT_PATHS);
  const noStore: RequestHandler = (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    next();
  };
  endpoint(router, '/commerce/shopify/install', {
    before: [noStore],
    GET: [o.limits.shopifyInstall, pageHandler(o, begin)],
  });
  endpoint(router, CALLBACK, {
    before: [noStore],
    GET: [o.limits.shopifyInstall, pageHandler(o, complete)],
  });
  return router;
}

/** Redirects the browser to Shopify. */
async function begin(o: ShopifyInstallDependencies, req: Request): Promise<PageResponse> {
  const userId = await userOf(o.portal, req);
  const call = { query: rawQueryOf(req), redirectUrl: `${o.publicUrl}${CALLBACK}`, userId };
  const { problem, authorizeUrl, browser } = await o.services.commerce.beginShopifyInstall(call);
  if (problem !== Problem.UNSPECIFIED) {
    return problemPage(problem, { shopDomain: '', missingScopes: [] });
  }
  const { name, attributes } = cookie(o.publicUrl);
  return redirect(authorizeUrl, [`${name}=${browser}; Max-Age=${COOKIE_S}; ${attributes}`]);
}

/** The user of the portal's session; empty when the browser has none. */
async function userOf(
  { sessions, sessionCookie }: ShopifyInstallDependencies['portal'],
  req: Request,
): Promise<string> {
  const secret = sessionCookie.idOf(req);
  const session = secret === undefined ? undefined : await sessions.find(secret);
  return session ? String(session.userId) : '';
}

/** Connects the shop. The cookie stays, so that a reload after a lost answer gets the same page. */
async function complete(
  o: ShopifyInstallDependencies,
  req: Request,
  res: Response,
): Promise<PageResponse> {
  const browser = cookieOf(req, cookie(o.publicUrl).name) ?? '';
  const call = { query: rawQueryOf(req), browser };
  const result = await o.services.commerce.completeShopifyInstall(call, { timeoutMs: COMPLETE_MS });
  const { connectedShopId: shopId, shopDomain: domain } = result;
  if (shopId > 0n) {
    const requestId = String(res.getHeader('X-Request-Id'));
    const source = addressOf(o.clientIp, req);
    const by = { actor: systemActor('shopify-install'), source, requestId };
    const action = 'commerce.shopify.connected';
    await recordAudit(o.pool, { shopId, by, action, subject: `${shopId}`, detail: { domain } });
  }
  return resultPage(result);
}

function pageHandler(
  o: ShopifyInstallDependencies,
  work: (o: ShopifyInstallDependencies, req: Request, res: Response) => Promise<PageResponse>,
): RequestHandler {
  return async (req, res) => {
    sendPage(res, await work(o, req, res).catch((error) => failurePage(o.logger, error)));
  };
}

const LATER: ReadonlySet<Code> = new Set([Code.Unavailable, Code.DeadlineExceeded]);

function failurePage(logger: Logger, error: unknown): PageResponse {
  logger.error({ err: error }, 'shopify install failed');
  if (LATER.has(ConnectError.from(error).code) || cannotReadSession(error)) return laterPage();
  const text = 'The error is on our side. Open the install link again.';
  return page(messagePage({ title: 'Something went wrong', text }), { status: 500 });
}

/** With the prefix, browsers reject a cookie that another host or a plain http page sets (RFC 6265bis). */
function cookie(publicUrl: string): { readonly name: string; readonly attributes: string } {
  const attributes = 'Path=/; HttpOnly; SameSite=Lax';
  return publicUrl.startsWith('https:')
    ? { name: '__Host-rms_shopify', attributes: `${attributes}; Secure` }
    : { name: 'rms_shopify', attributes };
}

const AGAIN = 'Open the install link again.';

/** The page after a complete install, and after one that did not continue. */
function resultPage(result: CompleteShopifyInstallResponse): PageResponse {
  if (result.problem !== Problem.UNSPECIFIED) return problemPage(result.problem, result);
  const text = `${result.shopDomain} is connected to shop no. ${result.connectedShopId}. You can close this page.`;
  return page(messagePage({ title: 'Your store is connected', text }));
}

/** A page that says why an install did not continue, and what to do. */
function problemPage(
  problem: Problem,
  about: Pick<CompleteShopifyInstallResponse, 'shopDomain' | 'missingScopes'>,
): PageResponse {
  if (problem === Problem.EXCHANGE) return unavailable(`Shopify does not answer. ${AGAIN}`);
  const { status, title, text } = PAGES.get(problem) ?? UNKNOWN;
  const full = text
    .replaceAll('{domain}', () => about.shopDomain)
    .replaceAll('{scopes}', () => about.missingScopes.join(', '));
  return page(messagePage({ title, text: full }), { status });
}

/** The returns service is unavailable, or did not answer in time. Then the install may be complete. */
function laterPage(): PageResponse {
  return unavailable(
    'Reload this page in a moment. If it then says that the install has ended, open the install link again.',
  );
}

type PageText = { readonly status: number; readonly title: string; readonly text: string };

const UNKNOWN: PageText = { status: 500, title: 'Something went wrong', text: AGAIN };

const PAGES: ReadonlyMap<Problem, PageText> = new Map([
  [
    Problem.NOT_CONFIGURED,
    {
      status: 404,
      title: 'Shopify is not set up here',
      text: 'The operator of this service has to set up its Shopify app first.',
    },
  ],
  [
    Problem.LINK,
    {
      status: 400,
      title: 'This link does not work',
      text: 'The install link has expired, was used already, or is not complete. Ask the operator of this service for a new one.',
    },
  ],
  [
    Problem.OTHER_USER,
    {
      status: 403,
      title: 'This link is for somebody else',
      text: 'Only the person who began the install in the portal can use it, in a browser in which this person is signed in to the portal. If somebody sent you the link, do not install anything.',
    },
  ],
  [
    Problem.SIGNATURE,
    {
      status: 400,
      title: 'This request is not valid',
      text: `Shopify did not sign it, or it was changed on its way. ${AGAIN}`,
    },
  ],
  [
    Problem.STATE,
    {
      status: 400,
      title: 'This install has ended',
      text: 'It took too long, was used already, or began in another browser. Open the install link again in this browser, or ask the operator of this service for a new one.',
    },
  ],
  [
    Problem.DOMAIN,
    {
      status: 400,
      title: 'This is another store',
      text: 'The install link is for {domain}. Sign in to that store at Shopify, and open the link again.',
    },
  ],
  [
    Problem.DENIED,
    {
      status: 403,
      title: 'Your store is not connected',
      text: 'Shopify says that the access was not allowed. To connect the store, open the install link again.',
    },
  ],
  [
    Problem.SCOPES,
    {
      status: 403,
      title: 'More access is needed',
      text: '{domain} did not give the app these scopes: {scopes}. Open the install link again, and allow all of them. If Shopify does not show them, ask the operator of this service.',
    },
  ],
  [
    Problem.DOMAIN_TAKEN,
    {
      status: 409,
      title: 'This store is connected already',
      text: '{domain} is connected to another shop of this service. Ask the operator of this service.',
    },
  ],
  [
    Problem.UNKNOWN_OUTCOMES,
    {
      status: 409,
      title: 'Your store cannot be connected yet',
      text: 'A refund, an order or a gift card was requested of the present platform of the shop, and its answer is not known yet. Open the install link again when the returns of the shop are processed.',
    },
  ],
]);
