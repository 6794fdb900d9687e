import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { ended, type PageResponse, redirect } from '../pages/response.ts';
import { SIGN_IN_TTL_S } from '../provider.ts';
import type { Cookies } from './cookies.ts';
import { SignInLost } from './failure-page.ts';
import type { OneTimeRecords } from './one-time-records.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import {
  type Identity,
  IdentityProviderUnavailable,
  SignInFailed,
  type Upstream,
} from './upstream.ts';

// The way to the identity provider and back, for the sign-ins of both authorization servers.

/** What is stored about a redirect to the identity provider, under its `state` parameter, until the user comes back. */
const providerRedirect = z.object({
  uid: z.string(),
  /** The e-mail address that the user entered; null when the identity provider asks for it. */
  email: z.string().nullable(),
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

/** What the way to the identity provider needs. */
export interface RedirectContext {
  readonly records: OneTimeRecords;
  readonly cookies: Cookies;
  readonly upstream: Upstream;
  readonly requests: AuthorizationRequests;
}

/** A browser, and the authorization request that it works on. */
export interface Incoming {
  readonly req: IncomingMessage;
  readonly request: AuthorizationRequest;
}

/**
 * Redirects the browser to the identity provider. It does the same work for known and unknown addresses, so that the
 * response does not reveal which addresses exist. Only an address with several shops can be recognised: the interface
 * wants its shop form before the sign-in.
 *
 * @param o.hint the address that the identity provider's page should show, when nobody entered `email` here.
 */
export async function redirectToProvider(
  o: RedirectContext,
  { req, request }: Incoming,
  {
    email,
    shopId,
    hint,
    prompts = FORWARDED_PROMPTS.filter((prompt) => request.prompts.includes(prompt)),
  }: {
    readonly email: string | null;
    readonly shopId: string | null;
    readonly hint?: string | undefined;
    readonly prompts?: string[];
  },
): Promise<PageResponse> {
  const { uid } = request;
  const browser = o.cookies.browserOf(req);
  const { url, expected } = await o.upstream.begin(email ?? hint, {
    prompts,
    maxAgeS: request.maxAgeS,
  });
  const { state, ...rest } = expected;
  await storeRedirect(o.records, state, { uid, email, shopId, browser, prompts, ...rest });
  return redirect(url, [o.cookies.browserCookie(browser)]);
}

/** The request of a browser that the identity provider redirected back. */
export interface CallbackRequest extends Incoming {
  /** The requested URL, with code and state. */
  readonly url: URL;
  readonly state: string;
  /** The redirect to the identity provider that this request completes. */
  readonly sent: ProviderRedirect;
}

export interface CallbackContext extends RedirectContext {
  readonly logger: Logger;
  /** The user signed in, but not recently enough or not with the required method. */
  readonly tooWeak: (request: AuthorizationRequest) => PageResponse;
  /** Returns the next page for a user who has signed in. */
  readonly afterSignIn: (callback: CallbackRequest, identity: Identity) => Promise<PageResponse>;
}

/**
 * The identity provider is unavailable, but the browser can retry the same URL, because the one-time record was stored
 * again.
 */
class RetryableUnavailable extends IdentityProviderUnavailable {}

/** Handles the redirect from the identity provider, and returns the next page. */
export async function handleCallback(
  o: CallbackContext,
  req: IncomingMessage,
  url: URL,
): Promise<PageResponse> {
  const state = url.searchParams.get('state') ?? '';
  const sent = await findRedirect(o.records, state);
  // Reject another browser. Otherwise an attacker could send a link that signs the user in as the attacker.
  if (!sent || o.cookies.knownBrowserOf(req) !== sent.browser) {
    o.logger.warn('sign-in refused: not begun in this browser, or over');
    return ended();
  }
  const request = await o.requests.find(sent.uid);
  // Take the record as late as possible, so that the user can retry after earlier failures. Of many concurrent
  // requests, one gets the record.
  if (!request || (await o.records.take('SignIn', state)) === undefined) return ended();
  const callback = { req, url, state, sent, request };
  try {
    const identity = await identify(o, callback);
    return identity instanceof SignInFailed
      ? await afterFailure(o, callback, identity)
      : await o.afterSignIn(callback, identity);
  } catch (error) {
    // The one-time record was taken, so a retry cannot succeed after any other failure.
    if (error instanceof RetryableUnavailable) throw error;
    throw new SignInLost('the one-time record is used up', { cause: error });
  }
}

/** Checks the response of the identity provider. */
async function identify(
  o: CallbackContext,
  { url, state, sent }: CallbackRequest,
): Promise<Identity | SignInFailed> {
  try {
    return await o.upstream.finish(url, { state, ...sent });
  } catch (error) {
    if (error instanceof SignInFailed) return error;
    if (!(error instanceof IdentityProviderUnavailable)) throw error;
    // The code may still be valid. Store the record again, so that the user can retry the same URL.
    await storeRedirect(o.records, state, sent);
    throw new RetryableUnavailable(error.message, { cause: error });
  }
}

async function afterFailure(
  o: CallbackContext,
  { req, sent, request }: CallbackRequest,
  failure: SignInFailed,
): Promise<PageResponse> {
  // This line shows operators an invalid configuration, such as a wrong client secret.
  o.logger.warn({ reason: failure.reason }, 'sign-in failed at the identity provider');
  const prompts = sent.prompts.filter((prompt) => prompt !== 'select_account');
  // `select_account` is optional, and some identity providers do not support it. So retry without it. `login` is
  // required, and all identity providers support it.
  if (failure.isInvalidRequest && prompts.length < sent.prompts.length) {
    return redirectToProvider(o, { req, request }, { ...sent, prompts });
  }
  if (failure.isTooWeak) return o.tooWeak(request);
  // The user did not deny anything, so the page says to connect again, and the app gets no `access_denied`.
  if (failure.isProviderError) throw failure;
  return failure.isDenied ? deny(o.requests, sent.uid, 'the sign-in was denied') : ended();
}

/** Denies the request with `access_denied`, and redirects the browser to the client. */
export async function deny(
  requests: AuthorizationRequests,
  uid: string,
  description: string,
): Promise<PageResponse> {
  const resume = await requests.deny(uid, description);
  return resume === undefined ? ended() : redirect(resume);
}

function storeRedirect(
  records: OneTimeRecords,
  state: string,
  content: ProviderRedirect,
): Promise<void> {
  return records.put('SignIn', state, { content, ttlS: SIGN_IN_TTL_S });
}

/** The redirect with this `state`; undefined when there is none. */
export async function findRedirect(
  records: OneTimeRecords,
  state: string,
): Promise<ProviderRedirect | undefined> {
  return providerRedirect.safeParse((await records.find('SignIn', state))?.content).data;
}
