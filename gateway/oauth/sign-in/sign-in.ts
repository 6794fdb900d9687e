import type { IncomingMessage } from 'node:http';
import type pg from 'pg';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import { linkAccount } from '../../tenancy/sign-in-accounts.ts';
import { parseEmail } from '../../tenancy/users.ts';
import { appOf } from '../clients/redirect-uri.ts';
import type { SelfNames } from '../clients/self-name.ts';
import type { SupportedClients } from '../clients/supported-clients.ts';
import { ended, type PageResponse, redirect } from '../pages/response.ts';
import { signInPath } from '../provider.ts';
import { grantContext } from '../tokens/grant-context.ts';
import { type ShopOfUser, shopsOfEmail } from './account.ts';
import { type ConsentForm, type ConsentStep, createConsentStep } from './consent.ts';
import {
  type CallbackRequest,
  deny,
  handleCallback,
  type Incoming,
  type RedirectContext,
  redirectToProvider,
} from './provider-redirect.ts';
import type { AuthorizationRequest } from './requests.ts';
import { createSignInPages, type SignInPages } from './sign-in-pages.ts';
import { confirmsEmail, type Identity } from './upstream.ts';

interface SignInOptions extends Omit<SignInContext, 'pages' | 'consent'> {
  readonly selfNames: SelfNames;
  readonly clients: SupportedClients;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
  readonly formOrigins: readonly string[];
}

/** Maximum length of an invalid address that the form repeats. Characters. */
const MAX_SHOWN = 320;

/**
 * The steps of a sign-in: e-mail address, shop, identity provider, consent. Each step returns the response for the
 * browser.
 */
export interface SignIn {
  /** Starts the sign-in for a new authorization request. */
  begin(req: IncomingMessage, request: AuthorizationRequest): Promise<PageResponse>;
  /**
   * Redirects to the current page of a sign-in. Undefined when the request is already granted or denied, or when it
   * does not exist.
   */
  currentPage(uid: string): Promise<PageResponse | undefined>;
  /** Shows the e-mail form again. */
  showEmailForm(uid: string): Promise<PageResponse>;
  /** Handles the e-mail form. */
  submitEmail(req: IncomingMessage, uid: string, email: string): Promise<PageResponse>;
  /** Handles the shop form, for the e-mail address that the user entered before. */
  submitShop(req: IncomingMessage, uid: string, shopId: string): Promise<PageResponse>;
  /** Handles the redirect from the identity provider. @param url the requested URL, with code and state. */
  handleCallback(req: IncomingMessage, url: URL): Promise<PageResponse>;
  /** Shows the consent form. */
  showConsentForm(req: IncomingMessage, uid: string): Promise<PageResponse>;
  /** Handles the consent form. */
  allow(req: IncomingMessage, uid: string, form: ConsentForm): Promise<PageResponse>;
  /** Denies the authorization request. */
  cancel(uid: string): Promise<PageResponse>;
}

export function createSignIn(o: SignInOptions): SignIn {
  const pages = createSignInPages(o);
  const consent = createConsentStep({ ...o, pages });
  const context = { ...o, pages, consent };
  const { requests } = o;

  return {
    async begin(req, request) {
      const email = parseEmail(request.loginHint ?? '');
      if (email === undefined) return pages.email(request);
      return chooseShopOrRedirect(context, { req, request }, email);
    },

    async currentPage(uid) {
      const request = await requests.find(uid);
      if (!request || request.isDecided) return undefined;
      const isAsked = await consent.isPending(uid);
      return redirect(isAsked ? `${signInPath(uid)}/consent` : signInPath(uid));
    },

    async showEmailForm(uid) {
      const request = await requests.find(uid);
      return request ? pages.email(request) : ended();
    },

    async submitEmail(req, uid, text) {
      const request = await requests.find(uid);
      if (!request) return ended();
      const email = parseEmail(text);
      if (email !== undefined) return chooseShopOrRedirect(context, { req, request }, email);
      const problem = 'Enter an e-mail address such as name@example.com.';
      return pages.email(request, { email: text.slice(0, MAX_SHOWN), problem });
    },

    async submitShop(req, uid, shopId) {
      const request = await requests.find(uid);
      if (request?.email === undefined) return ended();
      const { email } = request;
      const shops = await shopsOfEmail(o.pool, email);
      if (shops.some((shop) => String(shop.shopId) === shopId)) {
        return redirectToProvider(context, { req, request }, { email, shopId });
      }
      return pages.shops(request, shops, 'Choose one of your shops.');
    },

    handleCallback: (req, url) =>
      handleCallback(
        {
          ...context,
          tooWeak: pages.tooWeak,
          afterSignIn: (callback, identity) => afterSignIn(context, callback, identity),
        },
        req,
        url,
      ),
    showConsentForm: (req, uid) => consent.showForm(req, uid),
    allow: (req, uid, form) => consent.allow(req, uid, form),

    async cancel(uid) {
      const [request, isAsked] = await Promise.all([requests.find(uid), consent.isPending(uid)]);
      const app = request && { clientId: request.clientId, app: appOf(request.redirectUri) };
      o.logger.info({ ...app }, isAsked ? 'consent denied' : 'sign-in cancelled');
      return deny(requests, uid, 'the user denied access');
    },
  };
}

/** Links the account, and continues with the shops that the account may use. */
async function afterSignIn(
  o: SignInContext,
  { req, sent, request }: CallbackRequest,
  identity: Identity,
): Promise<PageResponse> {
  const { email, shopId } = sent;
  if (email === null || !confirmsEmail(identity, email)) {
    o.logger.warn('sign-in refused: another address, or one that is not confirmed');
    return o.pages.otherEmail(request);
  }
  const account = { issuer: identity.issuer, subject: identity.subject };
  const { linked, linkedToOther } = await linkAccount(o.pool, {
    email,
    account,
    from: grantContext(),
  });
  const isChosen = (id: bigint): boolean => shopId === null || String(id) === shopId;
  const shops = (await shopsOfEmail(o.pool, email)).filter((shop) => linked.includes(shop.shopId));
  const [shop, ...more] = shops.filter((one) => isChosen(one.shopId));
  if (!shop && linkedToOther.some(isChosen)) {
    o.logger.warn(
      { shops: linkedToOther.map(String) },
      'sign-in refused: another account is linked',
    );
    return o.pages.otherAccount(request);
  }
  if (!shop) {
    o.logger.info('sign-in refused: no shop is linked to the address');
    return o.pages.noEmail(request);
  }
  if (more.length === 0) return o.consent.begin(req, request, { shop, email });
  return showShopForm(o, request, { email, shops });
}

/** The dependencies that the steps of a sign-in share. */
interface SignInContext extends RedirectContext {
  readonly pool: pg.Pool;
  readonly pages: SignInPages;
  readonly consent: ConsentStep;
  readonly logger: Logger;
}

/** Shows the shop form when the user has several shops. Otherwise redirects to the identity provider. */
async function chooseShopOrRedirect(
  o: SignInContext,
  incoming: Incoming,
  email: string,
): Promise<PageResponse> {
  const shops = await shopsOfEmail(o.pool, email);
  if (shops.length > 1) return showShopForm(o, incoming.request, { email, shops });
  return redirectToProvider(o, incoming, { email, shopId: null });
}

async function showShopForm(
  o: SignInContext,
  request: AuthorizationRequest,
  { email, shops }: { readonly email: string; readonly shops: readonly ShopOfUser[] },
): Promise<PageResponse> {
  await o.requests.storeEmail(request.uid, email);
  return o.pages.shops(request, shops);
}
