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
import type { OneTimeRecords } from './one-time-records.ts';
import { ended, type PageResponse, redirect } from './pages/response.ts';
import { SIGN_IN_TTL_S, signInPath } from './provider.ts';
import type { AuthorizationRequest, AuthorizationRequests } from './requests.ts';
import type { SignInPages } from './sign-in-pages.ts';

/** Stored with the id of the authorization request while the consent page is open. */
const pendingConsent = z.object({
  userId: z.string(),
  shopId: z.string(),
  email: z.string(),
  /** The browser that signed in. */
  browser: z.string(),
  /** The form must contain this value. A page of another site cannot read it. */
  csrf: z.string(),
});
type PendingConsent = z.infer<typeof pendingConsent>;

/** The last step of a sign-in: the user allows or denies the app to act for them. */
export interface ConsentStep {
  /** Runs after the sign-in for a shop: asks the user, or grants directly when they agreed before. */
  begin(
    req: IncomingMessage,
    request: AuthorizationRequest,
    who: { readonly shop: ShopOfUser; readonly email: string },
  ): Promise<PageResponse>;
  /** Whether this authorization request waits for the user's decision. */
  isPending(uid: string): Promise<boolean>;
  /** Returns the consent page. */
  ask(req: IncomingMessage, uid: string): Promise<PageResponse>;
  /** Handles the submitted form. @param csrf its hidden field. */
  allow(req: IncomingMessage, uid: string, csrf: string): Promise<PageResponse>;
}

interface ConsentOptions {
  readonly pool: pg.Pool;
  readonly records: OneTimeRecords;
  readonly cookies: Cookies;
  readonly requests: AuthorizationRequests;
  readonly pages: SignInPages;
  readonly logger: Logger;
}

export function createConsentStep(o: ConsentOptions): ConsentStep {
  return {
    async begin(req, request, { shop, email }) {
      const { uid } = request;
      const { userId, shopId } = shop;
      if (!(await mustAsk(o, request, shop)))
        return grant(o, request, { account: { userId, shopId }, isConsented: false });
      const browser = o.cookies.browserOf(req);
      const csrf = randomBytes(32).toString('base64url');
      const content = { userId: `${userId}`, shopId: `${shopId}`, email, browser, csrf };
      await o.records.put('SignedIn', uid, { content, ttlS: SIGN_IN_TTL_S });
      return redirect(`${signInPath(uid)}/consent`, [o.cookies.keepBrowser(browser)]);
    },

    isPending: async (uid) => (await o.records.find('SignedIn', uid)) !== undefined,

    async ask(req, uid) {
      const pending = await pendingOf(o, req, uid);
      if (!pending || pending.request.isDecided) return ended();
      const { request, who } = pending;
      const shop = await shopOfMember(o.pool, accountOf(who));
      if (!shop) return o.pages.noEmail(request);
      return o.pages.consent(request, { shop, email: who.email, csrf: who.csrf });
    },

    async allow(req, uid, csrf) {
      // The one-time record is read, not removed: if storing the grant fails, the form can be sent again.
      const pending = await pendingOf(o, req, uid);
      if (!pending || !isSame(csrf, pending.who.csrf)) {
        o.logger.warn('consent refused: not the form, or not the browser, of the sign-in');
        return ended();
      }
      const { request, who } = pending;
      const answer = await grant(o, request, { account: accountOf(who), isConsented: true });
      if (answer.status === 303) {
        const { clientId, redirectUri } = request;
        const { userId, shopId } = who;
        o.logger.info({ userId, shopId, clientId, app: appOf(redirectUri) }, 'consent given');
      }
      return answer;
    },
  };
}

function accountOf({ userId, shopId }: PendingConsent): Account {
  return { userId: BigInt(userId), shopId: BigInt(shopId) };
}

function isSame(sent: string, expected: string): boolean {
  const [a, b] = [Buffer.from(sent), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Grants the request and redirects to the path that issues the code. */
async function grant(
  o: ConsentOptions,
  request: AuthorizationRequest,
  { account, isConsented }: { readonly account: Account; readonly isConsented: boolean },
): Promise<PageResponse> {
  try {
    const resume = await o.requests.grant(request.uid, account, isConsented);
    return resume === undefined ? ended() : redirect(resume);
  } catch (error) {
    // The membership ended after it was read.
    if (error instanceof DomainError) return o.pages.noEmail(request);
    throw error;
  }
}

/**
 * Consent is asked before the first grant for each combination of person, shop, client and redirect host.
 * For a loopback address or an app's scheme it is asked every time, because any program on the person's own
 * machine may listen there.
 */
async function mustAsk(
  { pool }: ConsentOptions,
  request: AuthorizationRequest,
  account: Account,
): Promise<boolean> {
  const { clientId, redirectUri } = request;
  if (request.prompts.includes('consent') || isOnOwnMachine(redirectUri)) return true;
  return !(await hasConsented(pool, { ...account, clientId, app: appOf(redirectUri) }));
}

/** The pending consent; undefined when there is none, or when another browser signed in. */
async function pendingOf(
  o: ConsentOptions,
  req: IncomingMessage,
  uid: string,
): Promise<{ request: AuthorizationRequest; who: PendingConsent } | undefined> {
  const request = await o.requests.find(uid);
  const content = (await o.records.find('SignedIn', uid))?.content;
  const who = pendingConsent.safeParse(content).data;
  if (!request || !who || o.cookies.knownBrowserOf(req) !== who.browser) return undefined;
  return { request, who };
}
