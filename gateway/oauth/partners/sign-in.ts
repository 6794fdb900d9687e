import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import { z } from 'zod';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { listMembers } from '../../tenancy/members.ts';
import { findPartnerApp, type PartnerApp } from '../../tenancy/partner-apps.ts';
import { divideScopes } from '../../tenancy/partner-grants.ts';
import { mayConnectApps } from '../../tenancy/partner-scopes.ts';
import { linkAccount } from '../../tenancy/sign-in-accounts.ts';
import { parseEmail } from '../../tenancy/users.ts';
import { ended, type PageResponse, redirect, unknownChoice } from '../pages/response.ts';
import { ROLE_NAMES } from '../pages/rights.ts';
import { SIGN_IN_TTL_S } from '../provider.ts';
import { type Account, type ShopOfUser, shopOfMember, shopsOfEmail } from '../sign-in/account.ts';
import {
  type CallbackRequest,
  deny,
  findRedirect,
  handleCallback,
  type RedirectContext,
  redirectToProvider,
} from '../sign-in/provider-redirect.ts';
import type { AuthorizationRequest } from '../sign-in/requests.ts';
import type { OtherCallback } from '../sign-in/sign-in-routes.ts';
import { confirmsEmail, type Identity } from '../sign-in/upstream.ts';
import { grantContext } from '../tokens/grant-context.ts';
import { partnerSignInPath } from './address.ts';
import {
  notAllowedPage,
  partnerConsentPage,
  partnerMessage,
  partnerShopPage,
  type ShopOfOthers,
} from './pages.ts';

interface PartnerSignInOptions extends RedirectContext {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  /** The issuer of the tokens. */
  readonly issuer: string;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
}

/** A user who has signed in and has to decide. Stored under the id of the authorization request. */
const signedIn = z.object({
  userId: z.string(),
  email: z.string(),
  /** The browser that signed in. */
  browser: z.string(),
  /** A secret value that the form of the chosen shop must contain. Pages of other sites cannot read it. */
  csrf: z.string(),
  /** The shops of the account that signed in. */
  shopIds: z.array(z.string()),
  /** Null until the user has chosen a shop. */
  shopId: z.string().nullable(),
});
type SignedIn = z.infer<typeof signedIn>;

/** The fields of the form in which the user allows or denies a request. */
const consentForm = z.object({
  consent: z.enum(['allow', 'deny']),
  csrf: z.string().default(''),
});

/**
 * The steps of a sign-in for a partner's app: identity provider, choice of a shop if there are several, consent. Each
 * returns the response for the browser.
 */
export interface PartnerSignIn {
  /** Redirects a new authorization request to the identity provider. */
  begin(req: IncomingMessage, request: AuthorizationRequest): Promise<PageResponse>;
  /** Redirects to the current page. Undefined when the request is decided, or does not exist. */
  currentPage(uid: string): Promise<PageResponse | undefined>;
  /** Redirects to the page that waits for the user, or to the identity provider again. */
  proceed(req: IncomingMessage, uid: string): Promise<PageResponse>;
  chooseShop(req: IncomingMessage, uid: string, shopId: string): Promise<PageResponse>;
  /** Shows the form for the shop, or for consent. */
  showForm(req: IncomingMessage, uid: string): Promise<PageResponse>;
  /** Handles the form of the consent page. */
  decide(req: IncomingMessage, uid: string, form: unknown): Promise<PageResponse>;
  /** Denies the authorization request. */
  cancel(uid: string): Promise<PageResponse>;
  readonly callback: OtherCallback;
}

export function createPartnerSignIn(o: PartnerSignInOptions): PartnerSignIn {
  const { requests, records } = o;
  const isPending = async (uid: string): Promise<boolean> =>
    (await records.find('SignedIn', uid)) !== undefined;
  const consentPath = (uid: string): string => `${partnerSignInPath(uid)}/consent`;
  const begin: PartnerSignIn['begin'] = (req, request) => {
    const hint = parseEmail(request.loginHint ?? '');
    return redirectToProvider(o, { req, request }, { email: null, shopId: null, hint });
  };

  return {
    begin,
    async currentPage(uid) {
      const request = await requests.find(uid);
      if (!request || request.isDecided) return undefined;
      return redirect((await isPending(uid)) ? consentPath(uid) : partnerSignInPath(uid));
    },
    async proceed(req, uid) {
      const request = await requests.find(uid);
      if (!request || request.isDecided) return ended();
      return (await isPending(uid)) ? redirect(consentPath(uid)) : begin(req, request);
    },
    chooseShop: (req, uid, shopId) => chooseShop(o, { req, uid }, shopId),
    showForm: (req, uid) => showForm(o, { req, uid }),
    async decide(req, uid, form) {
      const sent = consentForm.safeParse(form).data;
      if (!sent) return unknownChoice();
      if (sent.consent === 'allow') return allow(o, { req, uid }, sent.csrf);
      o.logger.info('consent for an app denied');
      return deny(requests, uid, 'the user denied access');
    },
    cancel: (uid) => deny(requests, uid, 'the user denied access'),
    callback: {
      owns: async (state) => (await findRedirect(records, state)) !== undefined,
      handle: (req, url) =>
        handleCallback(
          {
            ...o,
            tooWeak: (request) => partnerMessage(request, 'tooWeak'),
            afterSignIn: (callback, identity) => afterSignIn(o, callback, identity),
          },
          req,
          url,
        ),
    },
  };
}

/** Links the account, and asks for a shop or for consent. */
async function afterSignIn(
  o: PartnerSignInOptions,
  { req, request }: CallbackRequest,
  identity: Identity,
): Promise<PageResponse> {
  const app = await findPartnerApp(o.pool, request.clientId);
  if (!app) return ended();
  const email = parseEmail(identity.email ?? '');
  if (email === undefined || !confirmsEmail(identity, email)) {
    o.logger.warn('sign-in for an app refused: no confirmed address');
    return partnerMessage(request, 'notConfirmed');
  }
  const account = { issuer: identity.issuer, subject: identity.subject };
  const from = grantContext();
  const { linked, linkedToOther } = await linkAccount(o.pool, { email, account, from });
  const shops = (await shopsOfEmail(o.pool, email)).filter(({ shopId }) => linked.includes(shopId));
  if (shops.length === 0 && linkedToOther.length > 0) {
    o.logger.warn(
      { shops: linkedToOther.map(String) },
      'sign-in refused: another account is linked',
    );
    return partnerMessage(request, 'otherAccount');
  }
  const connectable = shops.filter(({ role }) => mayConnectApps(role));
  const [first, ...more] = connectable;
  if (!first) {
    o.logger.info({ clientId: app.clientId }, 'sign-in for an app refused: permission missing');
    return notAllowedPage(request, { app, email, shops: await othersOf(o.pool, shops) });
  }
  const browser = o.cookies.browserOf(req);
  await store(o, request.uid, {
    userId: String(first.userId),
    email,
    browser,
    csrf: newCsrf(),
    shopIds: shops.map(({ shopId }) => String(shopId)),
    shopId: more.length === 0 ? String(first.shopId) : null,
  });
  const cookie = o.cookies.browserCookie(browser);
  return redirect(`${partnerSignInPath(request.uid)}/consent`, [cookie]);
}

/** The form of a user who has signed in. */
interface Form {
  readonly req: IncomingMessage;
  readonly uid: string;
}

interface Pending {
  readonly request: AuthorizationRequest;
  readonly who: SignedIn;
  readonly app: PartnerApp;
}

/** Undefined when nothing waits for a decision, when it waits for another browser, or when the app was removed. */
async function findPending(
  o: PartnerSignInOptions,
  { req, uid }: Form,
): Promise<Pending | undefined> {
  const request = await o.requests.find(uid);
  const who = signedIn.safeParse((await o.records.find('SignedIn', uid))?.content).data;
  if (!request || !who || o.cookies.knownBrowserOf(req) !== who.browser) return undefined;
  const app = await findPartnerApp(o.pool, request.clientId);
  return app && { request, who, app };
}

async function showForm(o: PartnerSignInOptions, form: Form): Promise<PageResponse> {
  const pending = await findPending(o, form);
  if (!pending || pending.request.isDecided) return ended();
  const { request, who, app } = pending;
  const { email, csrf } = who;
  const account = accountOf(who);
  if (!account) {
    return partnerShopPage(request, { app, shops: await connectableOf(o.pool, who) });
  }
  const shop = await shopOfMember(o.pool, account);
  if (!shop || !mayConnectApps(shop.role)) return refuse(o, pending, shop);
  const { clientId, scopes: requested } = request;
  const wanted = app.scopes.filter((scope) => requested.includes(scope));
  const where = { shopId: shop.shopId, role: shop.role, issuer: o.issuer, clientId };
  const divided = await divideScopes(o.pool, where, wanted);
  return partnerConsentPage(request, { app, shop, email, csrf, ...divided, days: o.grantDays });
}

async function chooseShop(
  o: PartnerSignInOptions,
  form: Form,
  shopId: string,
): Promise<PageResponse> {
  const pending = await findPending(o, form);
  if (!pending || pending.request.isDecided) return ended();
  const { request, who, app } = pending;
  const shops = await connectableOf(o.pool, who);
  if (shops.some((shop) => String(shop.shopId) === shopId)) {
    // A new value for the form, so that a consent page of another shop cannot be sent any more.
    await store(o, request.uid, { ...who, shopId, csrf: newCsrf() });
    return redirect(`${partnerSignInPath(request.uid)}/consent`);
  }
  if (who.shopIds.includes(shopId)) {
    const account = { userId: BigInt(who.userId), shopId: BigInt(shopId) };
    return refuse(o, pending, await shopOfMember(o.pool, account));
  }
  return partnerShopPage(request, { app, shops, problem: 'Choose one of your shops.' });
}

/** Lets the app act. The permission is read again, because it may have ended while the page was open. */
async function allow(o: PartnerSignInOptions, form: Form, csrf: string): Promise<PageResponse> {
  const pending = await findPending(o, form);
  const account = pending && accountOf(pending.who);
  if (!pending || !account || !isSame(csrf, pending.who.csrf)) {
    o.logger.warn('consent for an app rejected: wrong csrf field or other browser');
    return ended();
  }
  const { request } = pending;
  try {
    const how = { isConsented: true, isReadOnly: false };
    const resume = await o.requests.grant(request.uid, account, how);
    if (resume === undefined) return ended();
    const { clientId } = request;
    const { userId, shopId } = pending.who;
    o.logger.info({ userId, shopId, clientId }, 'consent for an app given');
    return redirect(resume);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return refuse(o, pending, await shopOfMember(o.pool, account));
  }
}

/** The page for a user who may not connect apps to the shop. */
async function refuse(
  o: PartnerSignInOptions,
  { request, app, who }: Pending,
  shop: ShopOfUser | undefined,
): Promise<PageResponse> {
  const shops = await othersOf(o.pool, shop ? [shop] : []);
  return notAllowedPage(request, { app, email: who.email, shops });
}

function accountOf({ userId, shopId }: SignedIn): Account | undefined {
  return shopId === null ? undefined : { userId: BigInt(userId), shopId: BigInt(shopId) };
}

/** The shops of the account to which the user may connect apps. */
async function connectableOf(pool: pg.Pool, who: SignedIn): Promise<ShopOfUser[]> {
  const shops = await shopsOfEmail(pool, who.email);
  return shops.filter(
    ({ shopId, userId, role }) =>
      who.shopIds.includes(String(shopId)) && String(userId) === who.userId && mayConnectApps(role),
  );
}

/** Maximum number of shops, and of members of each, that a page names. */
const NAMED_MAX = 5;

function othersOf(pool: pg.Pool, shops: readonly ShopOfUser[]): Promise<ShopOfOthers[]> {
  return Promise.all(
    shops.slice(0, NAMED_MAX).map(async ({ name, shopId }) => {
      const members = await listMembers(pool, shopId);
      const whoMay = members
        .filter(({ role }) => mayConnectApps(role))
        .slice(0, NAMED_MAX)
        .map((member) => `${member.name ?? member.email} (${ROLE_NAMES[member.role]})`);
      return { name, whoMay };
    }),
  );
}

function store(o: PartnerSignInOptions, uid: string, content: SignedIn): Promise<void> {
  return o.records.put('SignedIn', uid, { content, ttlS: SIGN_IN_TTL_S });
}

function newCsrf(): string {
  return randomBytes(32).toString('base64url');
}

function isSame(sent: string, expected: string): boolean {
  const [a, b] = [Buffer.from(sent), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
