import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import { DomainError } from '../../services/platform/errors.ts';
import type { Logger } from '../../services/platform/log.ts';
import { type Account, type ShopOfUser, shopOfMember } from './account.ts';
import { appOf, isOnOwnMachine } from './clients/redirect-uri.ts';
import type { Cookies } from './cookies.ts';
import { hasConsented } from './grants.ts';
import { type Answer, ended, redirect } from './pages/answer.ts';
import { SIGN_IN_TTL_S, signInPath } from './provider.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import type { SignInPages } from './sign-in-pages.ts';
import type { Tickets } from './tickets.ts';

/** Who signed in, and is asked whether to allow it; kept under the id of the request. */
const waitingForConsent = z.object({
  userId: z.string(),
  shopId: z.string(),
  email: z.string(),
  /** The browser that signed in. */
  browser: z.string(),
  /** What the form must send back: a page of another site cannot read it. */
  csrf: z.string(),
});
type WaitingForConsent = z.infer<typeof waitingForConsent>;

/** The last step of a sign-in: whether the app may act for the person. */
export interface ConsentStep {
  /** Somebody has signed in for a shop: asks them, or grants at once where they have agreed before. */
  begin(
    req: IncomingMessage,
    request: AuthorizationRequest,
    who: { readonly shop: ShopOfUser; readonly email: string },
  ): Promise<Answer>;
  /** Whether a request waits for this answer. */
  isWaiting(uid: string): Promise<boolean>;
  /** The page that asks. */
  ask(req: IncomingMessage, uid: string): Promise<Answer>;
  /** The page's form came back. @param csrf its hidden field. */
  allow(req: IncomingMessage, uid: string, csrf: string): Promise<Answer>;
}

export function createConsentStep(o: {
  readonly pool: pg.Pool;
  readonly tickets: Tickets;
  readonly cookies: Cookies;
  readonly requests: AuthorizationRequests;
  readonly pages: SignInPages;
  readonly logger: Logger;
}): ConsentStep {
  const grant = async (
    request: AuthorizationRequest,
    account: Account,
    isConsented: boolean,
  ): Promise<Answer> => {
    try {
      const resume = await o.requests.grant(request.uid, account, isConsented);
      return resume === undefined ? ended() : redirect(resume);
    } catch (error) {
      // The membership has ended since it was looked up.
      if (error instanceof DomainError) return o.pages.noEmail(request);
      throw error;
    }
  };

  /**
   * Asked before the first grant of a person, shop, client and redirect host. Any program of the person's own
   * machine may wait at a loopback address or behind an app's scheme, so there it is asked every time.
   */
  const mustAsk = async (request: AuthorizationRequest, account: Account): Promise<boolean> => {
    const { clientId, redirectUri } = request;
    if (request.prompts.includes('consent') || isOnOwnMachine(redirectUri)) return true;
    return !(await hasConsented(o.pool, { ...account, clientId, app: appOf(redirectUri) }));
  };

  /** What waits, for the browser that signed in. */
  const waitingOf = async (
    req: IncomingMessage,
    uid: string,
  ): Promise<{ request: AuthorizationRequest; who: WaitingForConsent } | undefined> => {
    const request = await o.requests.find(uid);
    const ticket = (await o.tickets.find('SignedIn', uid))?.content;
    const who = waitingForConsent.safeParse(ticket).data;
    if (!request || !who || o.cookies.knownBrowserOf(req) !== who.browser) return undefined;
    return { request, who };
  };

  return {
    async begin(req, request, { shop, email }) {
      const { uid } = request;
      const { userId, shopId } = shop;
      if (!(await mustAsk(request, shop))) return grant(request, { userId, shopId }, false);
      const browser = o.cookies.browserOf(req);
      const csrf = randomBytes(32).toString('base64url');
      const content = { userId: `${userId}`, shopId: `${shopId}`, email, browser, csrf };
      await o.tickets.put('SignedIn', uid, { content, ttlS: SIGN_IN_TTL_S });
      return redirect(`${signInPath(uid)}/consent`, [o.cookies.keepBrowser(browser)]);
    },

    isWaiting: async (uid) => (await o.tickets.find('SignedIn', uid)) !== undefined,

    async ask(req, uid) {
      const waiting = await waitingOf(req, uid);
      if (!waiting || waiting.request.isDecided) return ended();
      const { request, who } = waiting;
      const shop = await shopOfMember(o.pool, accountOf(who));
      if (!shop) return o.pages.noEmail(request);
      return o.pages.consent(request, { shop, email: who.email, csrf: who.csrf });
    },

    async allow(req, uid, csrf) {
      // Found, not taken: when the grant cannot be stored at the moment, the form can be sent again.
      const waiting = await waitingOf(req, uid);
      if (!waiting || !isSame(csrf, waiting.who.csrf)) {
        o.logger.warn('consent refused: not the form, or not the browser, of the sign-in');
        return ended();
      }
      const { request, who } = waiting;
      const answer = await grant(request, accountOf(who), true);
      if (answer.status === 303) {
        const { clientId, redirectUri } = request;
        const { userId, shopId } = who;
        o.logger.info({ userId, shopId, clientId, app: appOf(redirectUri) }, 'consent given');
      }
      return answer;
    },
  };
}

function accountOf({ userId, shopId }: WaitingForConsent): Account {
  return { userId: BigInt(userId), shopId: BigInt(shopId) };
}

function isSame(sent: string, expected: string): boolean {
  const [a, b] = [Buffer.from(sent), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
