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
import { granting } from './granting.ts';
import { type Answer, ended, redirect } from './pages/answer.ts';
import { SIGN_IN_TTL_S, signInPath } from './provider.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import { createSignInPages } from './sign-in-pages.ts';
import type { Tickets } from './tickets.ts';
import {
  type Identity,
  IdentityProviderAway,
  proves,
  SignInRefused,
  type Upstream,
} from './upstream.ts';

export interface SignInOptions {
  readonly issuer: string;
  readonly pool: pg.Pool;
  readonly tickets: Tickets;
  readonly clients: SupportedClients;
  readonly cookies: Cookies;
  readonly upstream: Upstream;
  readonly requests: AuthorizationRequests;
  /** Days that a grant lives at most. */
  readonly grantDays: number;
  readonly formOrigins: readonly string[];
  readonly logger: Logger;
}

/** What is kept while somebody is away at the identity provider, under the state they come back with. */
const sentUpstream = z.object({
  uid: z.string(),
  /** The address that was asked for. */
  email: z.string(),
  /** The shop that was chosen; null while there was nothing to choose. */
  shopId: z.string().nullable(),
  /** The browser that was sent there. */
  browser: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  /** What the identity provider was told to ask. */
  prompts: z.array(z.string()).default([]),
  authenticatedSince: z.number().optional(),
});
type SentUpstream = z.infer<typeof sentUpstream>;

/** Prompts that concern the identity provider: nobody stays signed in here. */
const PROMPTS_THERE = ['login', 'select_account'];

/** As much of an address that is none is shown again. Characters. */
const MAX_SHOWN = 320;

/** What somebody came back with is kept again: it can be tried once more. */
class AwayForNow extends IdentityProviderAway {}

/**
 * The way from an authorization request to its code: whose address, which shop, the identity provider,
 * and whether it is allowed. Every step answers what a browser is to get.
 */
export interface SignIn {
  /** A request has just come in. */
  begin(req: IncomingMessage, request: AuthorizationRequest): Promise<Answer>;
  /**
   * The page to go on with, for whoever comes for an answer that is not given yet; undefined when it is,
   * or when there is no such sign-in.
   */
  goOn(uid: string): Promise<Answer | undefined>;
  /** The first form once more. */
  askEmail(uid: string): Promise<Answer>;
  /** An address was sent. */
  giveEmail(req: IncomingMessage, uid: string, email: string): Promise<Answer>;
  /** A shop was sent, for the address given before. */
  chooseShop(req: IncomingMessage, uid: string, shopId: string): Promise<Answer>;
  /** Somebody came back from the identity provider. @param url the address that they came to. */
  comeBack(req: IncomingMessage, url: URL): Promise<Answer>;
  /** The question whether to allow it. */
  askConsent(req: IncomingMessage, uid: string): Promise<Answer>;
  /** It was allowed. @param csrf the hidden field of the form. */
  allow(req: IncomingMessage, uid: string, csrf: string): Promise<Answer>;
  cancel(uid: string): Promise<Answer>;
}

export function createSignIn(o: SignInOptions): SignIn {
  const pages = createSignInPages(o);
  const consent = createConsentStep({ ...o, pages });

  const keep = (state: string, content: SentUpstream): Promise<void> =>
    o.tickets.put('SignIn', state, { content, ttlS: SIGN_IN_TTL_S });

  /** The same for everybody, known or not: same work, same answer. */
  const sendUpstream = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    { email, shopId, ...asked }: { email: string; shopId: string | null; prompts?: string[] },
  ): Promise<Answer> => {
    const { uid } = request;
    const browser = o.cookies.browserOf(req);
    const wanted = PROMPTS_THERE.filter((prompt) => request.prompts.includes(prompt));
    const prompts = asked.prompts ?? wanted;
    const demands = { prompts, maxAgeS: request.maxAgeS };
    const { url, expectation } = await o.upstream.begin(email, demands);
    const { state, ...expected } = expectation;
    await keep(state, { uid, email, shopId, browser, prompts, ...expected });
    return redirect(url, [o.cookies.keepBrowser(browser)]);
  };

  const askShop = async (
    request: AuthorizationRequest,
    email: string,
    shops: readonly ShopOfUser[],
  ): Promise<Answer> => {
    await o.requests.remember(request.uid, { email });
    return pages.shops(request, shops);
  };

  /** With several shops one is chosen first; with one or none the answer is the same. */
  const resolve = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    email: string,
  ): Promise<Answer> => {
    const shops = await shopsOfEmail(o.pool, email);
    if (shops.length > 1) return askShop(request, email, shops);
    return sendUpstream(req, request, { email, shopId: null });
  };

  const refuse = async (uid: string, why: string): Promise<Answer> => {
    const resume = await o.requests.refuse(uid, why);
    return resume === undefined ? ended() : redirect(resume);
  };

  /** Somebody proved that the address is theirs: now it counts which shops know them by it. */
  const arrive = async (
    req: IncomingMessage,
    request: AuthorizationRequest,
    { email, shopId, account }: SentUpstream & { readonly account: SignInAccount },
  ): Promise<Answer> => {
    const { mine, others } = await linkAccount(o.pool, { email, account, from: granting() });
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
      if (!(error instanceof IdentityProviderAway)) throw error;
      // The code may still be good: whoever comes to the same address again goes on.
      await keep(state, sent);
      throw new AwayForNow(error.message, { cause: error });
    }
  };

  /** What comes of somebody who is back from the identity provider. */
  const enter = async (
    req: IncomingMessage,
    url: URL,
    { state, sent, request }: { state: string; sent: SentUpstream; request: AuthorizationRequest },
  ): Promise<Answer> => {
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
      // A wrong secret of ours, for one, would else be known to the people it keeps out alone.
      o.logger.warn({ reason: error.reason }, 'the identity provider did not vouch for somebody');
      const prompts = sent.prompts.filter((prompt) => prompt !== 'select_account');
      // Not every identity provider knows it, and it is a wish; `login` is known to all, and a demand.
      if (error.isNotUnderstood && prompts.length < sent.prompts.length) {
        return sendUpstream(req, request, { ...sent, prompts });
      }
      if (error.isTooWeak) return pages.tooWeak(request);
      return error.isDenied ? refuse(sent.uid, 'sign-in was refused') : ended();
    }
    return arrive(req, request, { ...sent, account });
  };

  return {
    async begin(req, request) {
      const email = parseEmail(request.loginHint ?? '');
      return email === undefined ? pages.email(request) : resolve(req, request, email);
    },

    async goOn(uid) {
      const request = await o.requests.find(uid);
      if (!request || request.isDecided) return undefined;
      const isAsked = await consent.isWaiting(uid);
      return redirect(isAsked ? `${signInPath(uid)}/consent` : signInPath(uid));
    },

    async askEmail(uid) {
      const request = await o.requests.find(uid);
      return request ? pages.email(request) : ended();
    },

    async giveEmail(req, uid, text) {
      const request = await o.requests.find(uid);
      if (!request) return ended();
      const email = parseEmail(text);
      if (email !== undefined) return resolve(req, request, email);
      const problem = 'Enter an e-mail address such as name@example.com.';
      return pages.email(request, { email: text.slice(0, MAX_SHOWN), problem });
    },

    async chooseShop(req, uid, shopId) {
      const request = await o.requests.find(uid);
      if (request?.email === undefined) return ended();
      const { email } = request;
      const shops = await shopsOfEmail(o.pool, email);
      if (shops.some((shop) => String(shop.shopId) === shopId)) {
        return sendUpstream(req, request, { email, shopId });
      }
      return pages.shops(request, shops, 'Choose one of your shops.');
    },

    async comeBack(req, url) {
      const state = url.searchParams.get('state') ?? '';
      const sent = sentUpstream.safeParse((await o.tickets.find('SignIn', state))?.content).data;
      // Whoever was sent a link by somebody else would be signed in as them.
      if (!sent || o.cookies.knownBrowserOf(req) !== sent.browser) return ended();
      const request = await o.requests.find(sent.uid);
      // Taken as late as can be, by one of many: until then it can be tried again.
      if (!request || (await o.tickets.take('SignIn', state)) === undefined) return ended();
      return enter(req, url, { state, sent, request }).catch((error: unknown) => {
        // Whoever comes again finds nothing to go on with, whatever it was that failed.
        throw error instanceof AwayForNow ? error : new SignInLost('it is spent', { cause: error });
      });
    },

    askConsent: (req, uid) => consent.ask(req, uid),
    allow: (req, uid, csrf) => consent.allow(req, uid, csrf),
    async cancel(uid) {
      const [request, isAsked] = await Promise.all([o.requests.find(uid), consent.isWaiting(uid)]);
      const to = request && { clientId: request.clientId, app: appOf(request.redirectUri) };
      o.logger.info({ ...to }, isAsked ? 'consent denied' : 'sign-in cancelled');
      return refuse(uid, 'the user said no');
    },
  };
}
