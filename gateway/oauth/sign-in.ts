import type { IncomingMessage } from 'node:http';
import type { Logger } from '../../services/platform/log.ts';
import { parseEmail } from '../tenancy/users.ts';
import { shopsOfEmail } from './account.ts';
import { deny, handleCallback } from './callback.ts';
import { appOf } from './clients/redirect-uri.ts';
import type { SelfNames } from './clients/self-name.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { type ConsentForm, createConsentStep } from './consent.ts';
import { ended, type PageResponse, redirect } from './pages/response.ts';
import { signInPath } from './provider.ts';
import {
  chooseShopOrRedirect,
  redirectToProvider,
  type SignInContext,
} from './provider-redirect.ts';
import type { AuthorizationRequest } from './requests.ts';
import { createSignInPages } from './sign-in-pages.ts';

export interface SignInOptions extends Omit<SignInContext, 'pages'> {
  readonly selfNames: SelfNames;
  readonly clients: SupportedClients;
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
  readonly formOrigins: readonly string[];
  readonly logger: Logger;
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

    handleCallback: (req, url) => handleCallback(context, req, url),
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
