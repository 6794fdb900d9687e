import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import type { Logger } from '../../services/platform/log.ts';
import { linkAccount, type SignInAccount } from '../tenancy/sign-in-accounts.ts';
import { parseEmail } from '../tenancy/users.ts';
import { type ShopOfUser, shopsOfEmail } from './account.ts';
import { appOf } from './clients/redirect-uri.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { createConsentStep } from './consent.ts';
import type { Cookies } from './cookies.ts';
import { SignInLost } from './failures.ts';
import { grantContext } from './grant-context.ts';
import type { OneTimeRecords } from './one-time-records.ts';
import { ended, type PageResponse, redirect } from './pages/response.ts';
import { SIGN_IN_TTL_S, signInPath } from './provider.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import { createSignInPages } from './sign-in-pages.ts';
import {
  type Identity,
  IdentityProviderUnavailable,
  proves,
  SignInRefused,
  type Upstream,
} from './upstream.ts';

export interface SignInOptions {
  readonly issuer: string;
  readonly pool: pg.Pool;
  readonly records: OneTimeRecords;
  readonly clients: SupportedClients;
  readonly cookies: Cookies;
  readonly upstream: Upstream;
  readonly requests: AuthorizationRequests;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
  readonly formOrigins: readonly string[];
  readonly logger: Logger;
}

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
type SentUpstream = z.infer<typeof sentUpstream>;

/** The prompts that are passed to the identity provider. */
const FORWARDED_PROMPTS = ['login', 'select_account'];

/** An invalid address is shown again in the form up to this length. Characters. */
const MAX_SHOWN = 320;

/** The one-time record was stored again, so the browser can retry the same URL. */
class RetryableUnavailable extends IdentityProviderUnavailable {}

/**
 * The steps from an authorization request to its code: e-mail address, shop, identity provider, consent.
 * Each step returns the response for the browser.
 */
export interface SignIn {
  /** Starts the sign-in for a new authorization request. */
  begin(req: IncomingMessage, request: AuthorizationRequest): Promise<PageResponse>;
  /**
   * Redirects to the current page of an undecided sign-in. Undefined when the sign-in is decided or does not
   * exist.
   */
  currentPage(uid: string): Promise<PageResponse | undefined>;
  /** Shows the e-mail form again. */
  showEmailForm(uid: string): Promise<PageResponse>;
  /** Handles the e-mail form. */
  submitEmail(req: IncomingMessage, uid: string, email: string): Promise<PageResponse>;
  /** Handles the shop form, for the address entered before. */
  submitShop(req: IncomingMessage, uid: string, shopId: string): Promise<PageResponse>;
  /** Handles the redirect from the identity provider. @param url the requested URL, with code and state. */
  handleCallback(req: IncomingMessage, url: URL): Promise<PageResponse>;
  /** Shows the consent form. */
  showConsentForm(req: IncomingMessage, uid: string): Promise<PageResponse>;
  /** Handles the consent form. @param csrf its hidden field. */
  allow(req: IncomingMessage, uid: string, csrf: string): Promise<PageResponse>;
  cancel(uid: string): Promise<PageResponse>;
}

export function createSignIn(o: SignInOptions): SignIn {
  const pages = createSignInPages(o);
  const consent = createConsentStep({ ...o, pages });

  const storeSent = (state: string, content: SentUpstream): Promise<void> =>
    o.records.put('SignIn', state, { content, ttlS: SIGN_IN_TTL_S });

  /** Does the same work for known and unknown addresses, so the response does not reveal which ones exist. */
  const sendUpstream = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    { email, shopId, ...asked }: { email: string; shopId: string | null; prompts?: string[] },
  ): Promise<PageResponse> => {
    const { uid } = request;
    const browser = o.cookies.browserOf(req);
    const wanted = FORWARDED_PROMPTS.filter((prompt) => request.prompts.includes(prompt));
    const prompts = asked.prompts ?? wanted;
    const demands = { prompts, maxAgeS: request.maxAgeS };
    const { url, expectation } = await o.upstream.begin(email, demands);
    const { state, ...expected } = expectation;
    await storeSent(state, { uid, email, shopId, browser, prompts, ...expected });
    return redirect(url, [o.cookies.keepBrowser(browser)]);
  };

  const askShop = async (
    request: AuthorizationRequest,
    email: string,
    shops: readonly ShopOfUser[],
  ): Promise<PageResponse> => {
    await o.requests.remember(request.uid, { email });
    return pages.shops(request, shops);
  };

  /** Shows the shop form for several shops; redirects to the identity provider for one shop or none. */
  const askShopOrSend = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    email: string,
  ): Promise<PageResponse> => {
    const shops = await shopsOfEmail(o.pool, email);
    if (shops.length > 1) return askShop(request, email, shops);
    return sendUpstream(req, request, { email, shopId: null });
  };

  const refuse = async (uid: string, why: string): Promise<PageResponse> => {
    const resume = await o.requests.refuse(uid, why);
    return resume === undefined ? ended() : redirect(resume);
  };

  /** Continues after the identity provider confirmed the address, with the shops that this account may use. */
  const continueWithAccount = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    { email, shopId, account }: SentUpstream & { readonly account: SignInAccount },
  ): Promise<PageResponse> => {
    const { mine, others } = await linkAccount(o.pool, { email, account, from: grantContext() });
    const isWanted = (id: bigint): boolean => shopId === null || String(id) === shopId;
    const shops = (await shopsOfEmail(o.pool, email)).filter((shop) => mine.includes(shop.shopId));
    const [shop, ...more] = shops.filter((one) => isWanted(one.shopId));
    if (!shop && others.some(isWanted)) {
      o.logger.warn({ shops: others.map(String) }, 'sign-in refused: another account is linked');
      return pages.otherAccount(request);
    }
    if (!shop) {
      o.logger.info('sign-in refused: no shop is linked to the address');
      return pages.noEmail(request);
    }
    if (more.length > 0) return askShop(request, email, shops);
    return consent.begin(req, request, { shop, email });
  };

  const identify = async (url: URL, state: string, sent: SentUpstream): Promise<Identity> => {
    try {
      return await o.upstream.finish(url, { state, ...sent });
    } catch (error) {
      if (!(error instanceof IdentityProviderUnavailable)) throw error;
      // The code may still be valid. With the record stored again, the user can retry the same URL.
      await storeSent(state, sent);
      throw new RetryableUnavailable(error.message, { cause: error });
    }
  };

  /** Checks the response of the identity provider and returns the next page. */
  const checkCallback = async (
    req: IncomingMessage,
    url: URL,
    { state, sent, request }: { state: string; sent: SentUpstream; request: AuthorizationRequest },
  ): Promise<PageResponse> => {
    let account: SignInAccount;
    try {
      const identity = await identify(url, state, sent);
      if (!proves(identity, sent.email)) {
        o.logger.warn('sign-in refused: another address, or one that is not confirmed');
        return pages.otherEmail(request);
      }
      account = { issuer: identity.issuer, subject: identity.subject };
    } catch (error) {
      if (!(error instanceof SignInRefused)) throw error;
      // Without this line, operators would not notice a configuration fault such as a wrong client secret.
      o.logger.warn({ reason: error.reason }, 'sign-in failed at the identity provider');
      const prompts = sent.prompts.filter((prompt) => prompt !== 'select_account');
      // `select_account` is optional, and some identity providers do not support it: retry without it.
      // `login` is required, and all identity providers support it.
      if (error.isNotUnderstood && prompts.length < sent.prompts.length) {
        return sendUpstream(req, request, { ...sent, prompts });
      }
      if (error.isTooWeak) return pages.tooWeak(request);
      return error.isDenied ? refuse(sent.uid, 'sign-in was refused') : ended();
    }
    return continueWithAccount(req, request, { ...sent, account });
  };

  return {
    async begin(req, request) {
      const email = parseEmail(request.loginHint ?? '');
      return email === undefined ? pages.email(request) : askShopOrSend(req, request, email);
    },

    async currentPage(uid) {
      const request = await o.requests.find(uid);
      if (!request || request.isDecided) return undefined;
      const isAsked = await consent.isPending(uid);
      return redirect(isAsked ? `${signInPath(uid)}/consent` : signInPath(uid));
    },

    async showEmailForm(uid) {
      const request = await o.requests.find(uid);
      return request ? pages.email(request) : ended();
    },

    async submitEmail(req, uid, text) {
      const request = await o.requests.find(uid);
      if (!request) return ended();
      const email = parseEmail(text);
      if (email !== undefined) return askShopOrSend(req, request, email);
      const problem = 'Enter an e-mail address such as name@example.com.';
      return pages.email(request, { email: text.slice(0, MAX_SHOWN), problem });
    },

    async submitShop(req, uid, shopId) {
      const request = await o.requests.find(uid);
      if (request?.email === undefined) return ended();
      const { email } = request;
      const shops = await shopsOfEmail(o.pool, email);
      if (shops.some((shop) => String(shop.shopId) === shopId)) {
        return sendUpstream(req, request, { email, shopId });
      }
      return pages.shops(request, shops, 'Choose one of your shops.');
    },

    async handleCallback(req, url) {
      const state = url.searchParams.get('state') ?? '';
      const sent = sentUpstream.safeParse((await o.records.find('SignIn', state))?.content).data;
      // Another browser is rejected: otherwise a link from an attacker would sign the user in as the attacker.
      if (!sent || o.cookies.knownBrowserOf(req) !== sent.browser) return ended();
      const request = await o.requests.find(sent.uid);
      // Removed as late as possible, so that earlier failures can be retried. Of concurrent requests, one succeeds.
      if (!request || (await o.records.take('SignIn', state)) === undefined) return ended();
      return checkCallback(req, url, { state, sent, request }).catch((error: unknown) => {
        // The one-time record is removed, so a retry cannot succeed after any other failure.
        if (error instanceof RetryableUnavailable) throw error;
        throw new SignInLost('the one-time record is used up', { cause: error });
      });
    },

    showConsentForm: (req, uid) => consent.ask(req, uid),
    allow: (req, uid, csrf) => consent.allow(req, uid, csrf),
    async cancel(uid) {
      const [request, isAsked] = await Promise.all([o.requests.find(uid), consent.isPending(uid)]);
      const to = request && { clientId: request.clientId, app: appOf(request.redirectUri) };
      o.logger.info({ ...to }, isAsked ? 'consent denied' : 'sign-in cancelled');
      return refuse(uid, 'the user denied access');
    },
  };
}
