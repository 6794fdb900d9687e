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

/** What is stored about a redirect to the identity provider, under its `state` parameter, until the user comes back. */
const providerRedirect = z.object({
  uid: z.string(),
  /** The e-mail address that the user entered. */
  email: z.string(),
  /** The shop that the user chose; null when the user has one shop or none. */
  shopId: z.string().nullable(),
  /** The browser that was redirected. */
  browser: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  /** The `prompt` values that were sent. */
  prompts: z.array(z.string()).default([]),
  authenticatedSince: z.number().optional(),
});
export type ProviderRedirect = z.infer<typeof providerRedirect>;

/** The `prompt` values that the identity provider gets. */
const FORWARDED_PROMPTS = ['login', 'select_account'];

/** The dependencies that the steps of a sign-in share. */
export interface SignInContext {
  readonly pool: pg.Pool;
  readonly records: OneTimeRecords;
  readonly cookies: Cookies;
  readonly upstream: Upstream;
  readonly requests: AuthorizationRequests;
  readonly pages: SignInPages;
}

/**
 * Redirects the browser to the identity provider. It does the same work for known and unknown addresses, so that the
 * response does not reveal which addresses exist. Only an address with several shops can be recognised: the interface
 * wants its shop form before the sign-in.
 */
export async function redirectToProvider(
  o: SignInContext,
  { req, request }: { readonly req: IncomingMessage; readonly request: AuthorizationRequest },
  {
    email,
    shopId,
    prompts = FORWARDED_PROMPTS.filter((prompt) => request.prompts.includes(prompt)),
  }: { email: string; shopId: string | null; prompts?: string[] },
): Promise<PageResponse> {
  const { uid } = request;
  const browser = o.cookies.browserOf(req);
  const { url, expected } = await o.upstream.begin(email, { prompts, maxAgeS: request.maxAgeS });
  const { state, ...rest } = expected;
  await storeRedirect(o.records, state, { uid, email, shopId, browser, prompts, ...rest });
  return redirect(url, [o.cookies.browserCookie(browser)]);
}

/** Shows the shop form when the user has several shops. Otherwise redirects to the identity provider. */
export async function chooseShopOrRedirect(
  o: SignInContext,
  incoming: { readonly req: IncomingMessage; readonly request: AuthorizationRequest },
  email: string,
): Promise<PageResponse> {
  const shops = await shopsOfEmail(o.pool, email);
  if (shops.length > 1) return showShopForm(o, incoming.request, { email, shops });
  return redirectToProvider(o, incoming, { email, shopId: null });
}

export async function showShopForm(
  o: SignInContext,
  request: AuthorizationRequest,
  { email, shops }: { readonly email: string; readonly shops: readonly ShopOfUser[] },
): Promise<PageResponse> {
  await o.requests.storeEmail(request.uid, email);
  return o.pages.shops(request, shops);
}

export function storeRedirect(
  records: OneTimeRecords,
  state: string,
  content: ProviderRedirect,
): Promise<void> {
  return records.put('SignIn', state, { content, ttlS: SIGN_IN_TTL_S });
}

export async function findRedirect(
  records: OneTimeRecords,
  state: string,
): Promise<ProviderRedirect | undefined> {
  return providerRedirect.safeParse((await records.find('SignIn', state))?.content).data;
}
