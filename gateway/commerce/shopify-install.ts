import { Code, ConnectError } from '@connectrpc/connect';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import { ShopifyInstallProblem as Problem } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { systemActor } from '../../services/platform/identity.ts';
import type { Logger } from '../../services/platform/log.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { HourlyLimits } from '../auth/hourly-limits.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { rawQueryOf } from '../http/query.ts';
import { cookieOf } from '../oauth/cookies.ts';
import { messagePage } from '../oauth/pages/pages.ts';
import { type PageResponse, page, redirect, sendPage } from '../oauth/pages/response.ts';
import type { Services } from '../services.ts';
import type { AuditWriter } from '../tenancy/audit-writer.ts';
import { laterPage, problemPage, resultPage } from './shopify-pages.ts';

export interface ShopifyInstallDependencies {
  readonly services: Pick<Services, 'commerce'>;
  readonly audit: AuditWriter;
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
  const call = { query: rawQueryOf(req), redirectUrl: `${o.publicUrl}${CALLBACK}` };
  const { problem, authorizeUrl, browser } = await o.services.commerce.beginShopifyInstall(call);
  if (problem !== Problem.UNSPECIFIED) {
    return problemPage(problem, { shopDomain: '', missingScopes: [] });
  }
  const { name, attributes } = cookie(o.publicUrl);
  return redirect(authorizeUrl, [`${name}=${browser}; Max-Age=${COOKIE_S}; ${attributes}`]);
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
    await o.audit.write({ shopId, by, action, subject: `${shopId}`, detail: { domain } });
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
  if (LATER.has(ConnectError.from(error).code)) return laterPage();
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
