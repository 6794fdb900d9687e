import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { appOf, isOnUsersMachine } from '../clients/redirect-uri.ts';
import type { SelfNames } from '../clients/self-name.ts';
import { ACCESS } from '../pages/consent-page.ts';
import { ended, type PageResponse, redirect } from '../pages/response.ts';
import { SIGN_IN_TTL_S, signInPath } from '../provider.ts';
import { type Consent, consentOf } from '../tokens/grants.ts';
import { type Account, type ShopOfUser, shopOfMember } from './account.ts';
import type { Cookies } from './cookies.ts';
import type { OneTimeRecords } from './one-time-records.ts';
import type { AuthorizationRequest, AuthorizationRequests, GrantedHow } from './requests.ts';
import type { SignInPages } from './sign-in-pages.ts';

/** A request that waits for the user's decision. Stored under the id of the authorization request. */
const pendingConsent = z.object({
  userId: z.string(),
  shopId: z.string(),
  email: z.string(),
  /** The browser that signed in. */
  browser: z.string(),
  /** A secret value that the form must contain. Pages of other sites cannot read it, so they cannot send the form. */
  csrf: z.string(),
});
type PendingConsent = z.infer<typeof pendingConsent>;

/** The fields of the form in which the user allows or denies a request. Without `access`, its default is sent. */
export const consentForm = z.object({
  consent: z.enum(['allow', 'deny']),
  access: z.enum(ACCESS).default(ACCESS.everything),
  csrf: z.string().default(''),
});
export type ConsentForm = z.output<typeof consentForm>;

/** The last step of a sign-in: the user allows or denies the app to act for them. */
export interface ConsentStep {
  /** Asks the user for consent. Grants the request at once when the user has already consented. */
  begin(
    req: IncomingMessage,
    request: AuthorizationRequest,
    who: { readonly shop: ShopOfUser; readonly email: string },
  ): Promise<PageResponse>;
  /** Whether this authorization request waits for the user's decision. */
  isPending(uid: string): Promise<boolean>;
  showForm(req: IncomingMessage, uid: string): Promise<PageResponse>;
  /** Handles the form in which the user allows the request. */
  allow(req: IncomingMessage, uid: string, form: ConsentForm): Promise<PageResponse>;
}

interface ConsentOptions {
  readonly pool: pg.Pool;
  readonly records: OneTimeRecords;
  readonly selfNames: SelfNames;
  readonly cookies: Cookies;
  readonly requests: AuthorizationRequests;
  readonly pages: SignInPages;
  readonly logger: Logger;
}

/** Creates the last step of a sign-in. @param o.records stores who signed in until the user decides. */
export function createConsentStep(o: ConsentOptions): ConsentStep {
  return {
    async begin(req, request, { shop, email }) {
      const { uid } = request;
      const { userId, shopId } = shop;
      const remembered = await rememberedConsent(o, request, shop);
      if (remembered) {
        const { isReadOnly } = remembered;
        return grant(o, request, { account: { userId, shopId }, isConsented: false, isReadOnly });
      }
      const browser = o.cookies.browserOf(req);
      const csrf = randomBytes(32).toString('base64url');
      const content = { userId: `${userId}`, shopId: `${shopId}`, email, browser, csrf };
      await o.records.put('SignedIn', uid, { content, ttlS: SIGN_IN_TTL_S });
      return redirect(`${signInPath(uid)}/consent`, [o.cookies.browserCookie(browser)]);
    },

    isPending: async (uid) => (await o.records.find('SignedIn', uid)) !== undefined,

    async showForm(req, uid) {
      const pending = await findPending(o, req, uid);
      if (!pending || pending.request.isDecided) return ended();
      const { request, who } = pending;
      const shop = await shopOfMember(o.pool, accountOf(who));
      if (!shop) return o.pages.noEmail(request);
      const selfName = await o.selfNames.find(req, request.redirectUri);
      return o.pages.consent(request, { shop, email: who.email, csrf: who.csrf, selfName });
    },

    async allow(req, uid, { csrf, access }) {
      // Find the one-time record, but do not remove it. If the grant cannot be stored, the user can send the form
      // again.
      const pending = await findPending(o, req, uid);
      if (!pending || !isSame(csrf, pending.who.csrf)) {
        o.logger.warn('consent rejected: wrong csrf field or other browser');
        return ended();
      }
      const { request, who } = pending;
      const isReadOnly = access === ACCESS.readOnly;
      const account = accountOf(who);
      const selfName = await o.selfNames.find(req, request.redirectUri);
      const how = { account, isConsented: true, isReadOnly, selfName };
      const response = await grant(o, request, how);
      if (response.status === 303) {
        const { clientId, redirectUri } = request;
        const { userId, shopId } = who;
        const app = appOf(redirectUri);
        o.logger.info({ userId, shopId, clientId, app, isReadOnly }, 'consent given');
      }
      return response;
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

/** Grants the request, and redirects the browser to the path that issues the code. */
async function grant(
  o: ConsentOptions,
  request: AuthorizationRequest,
  { account, ...how }: GrantedHow & { readonly account: Account },
): Promise<PageResponse> {
  try {
    const resume = await o.requests.grant(request.uid, account, how);
    return resume === undefined ? ended() : redirect(resume);
  } catch (error) {
    // The membership ended after this sign-in had read it.
    if (error instanceof DomainError) return o.pages.noEmail(request);
    throw error;
  }
}

/**
 * Returns the consent that the user gave before; undefined when the user must be asked. The first grant for each
 * combination of user, shop, client and redirect host needs consent. When the redirect URI is a loopback address or the
 * scheme of an app, every grant needs consent, because any program on the user's machine may receive the code.
 */
async function rememberedConsent(
  { pool }: ConsentOptions,
  request: AuthorizationRequest,
  account: Account,
): Promise<Consent | undefined> {
  const { clientId, redirectUri } = request;
  if (request.prompts.includes('consent') || isOnUsersMachine(redirectUri)) return undefined;
  return consentOf(pool, { ...account, clientId, app: appOf(redirectUri) });
}

/** Finds the pending consent. Undefined when there is none, or when it belongs to another browser. */
async function findPending(
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
