import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import { type ShopOfUser, shopsOfEmail } from './account.ts';
import type { Cookies } from './cookies.ts';
import type { OneTimeRecords } from './one-time-records.ts';
import { type PageResponse, redirect } from './pages/response.ts';
import { SIGN_IN_TTL_S } from './provider.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import type { SignInPages } from './sign-in-pages.ts';
import type { Upstream } from './upstream.ts';

/** Stored while the person is at the identity provider, under the `state` parameter of the redirect. */
const sentUpstream = z.object({
  uid: z.string(),
  /** The e-mail address that the person entered. */
  email: z.string(),
  /** The shop that was chosen; null when there was no choice. */
  shopId: z.string().nullable(),
  /** The browser that was redirected. */
  browser: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  /** The `prompt` values that were sent. */
  prompts: z.array(z.string()).default([]),
  authenticatedSince: z.number().optional(),
});
export type SentUpstream = z.infer<typeof sentUpstream>;

/** The prompts that are passed to the identity provider. */
const FORWARDED_PROMPTS = ['login', 'select_account'];

/** What the steps of a sign-in share. */
export interface SignInContext {
  readonly pool: pg.Pool;
  readonly records: OneTimeRecords;
  readonly cookies: Cookies;
  readonly upstream: Upstream;
  readonly requests: AuthorizationRequests;
  readonly pages: SignInPages;
}

/**
 * Redirects to the identity provider. Does the same work for known and unknown addresses, so the response does not
 * reveal which ones exist.
 */
export async function sendUpstream(
  o: SignInContext,
  { req, request }: { readonly req: IncomingMessage; readonly request: AuthorizationRequest },
  { email, shopId, ...asked }: { email: string; shopId: string | null; prompts?: string[] },
): Promise<PageResponse> {
  const { uid } = request;
  const browser = o.cookies.browserOf(req);
  const wanted = FORWARDED_PROMPTS.filter((prompt) => request.prompts.includes(prompt));
  const prompts = asked.prompts ?? wanted;
  const demands = { prompts, maxAgeS: request.maxAgeS };
  const { url, expectation } = await o.upstream.begin(email, demands);
  const { state, ...expected } = expectation;
  await storeSent(o.records, state, { uid, email, shopId, browser, prompts, ...expected });
  return redirect(url, [o.cookies.keepBrowser(browser)]);
}

/** Shows the shop form for several shops; redirects to the identity provider for one shop or none. */
export async function askShopOrSend(
  o: SignInContext,
  asked: { readonly req: IncomingMessage; readonly request: AuthorizationRequest },
  email: string,
): Promise<PageResponse> {
  const shops = await shopsOfEmail(o.pool, email);
  if (shops.length > 1) return askShop(o, asked.request, { email, shops });
  return sendUpstream(o, asked, { email, shopId: null });
}

export async function askShop(
  o: SignInContext,
  request: AuthorizationRequest,
  { email, shops }: { readonly email: string; readonly shops: readonly ShopOfUser[] },
): Promise<PageResponse> {
  await o.requests.remember(request.uid, { email });
  return o.pages.shops(request, shops);
}

export function storeSent(
  records: OneTimeRecords,
  state: string,
  content: SentUpstream,
): Promise<void> {
  return records.put('SignIn', state, { content, ttlS: SIGN_IN_TTL_S });
}

export async function findSent(
  records: OneTimeRecords,
  state: string,
): Promise<SentUpstream | undefined> {
  return sentUpstream.safeParse((await records.find('SignIn', state))?.content).data;
}
