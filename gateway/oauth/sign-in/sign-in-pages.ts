import { displayHost, formTarget, isOnUsersMachine } from '../clients/redirect-uri.ts';
import type { SupportedClients } from '../clients/supported-clients.ts';
import { consentPage } from '../pages/consent-page.ts';
import type { ConnectingApp } from '../pages/layout.ts';
import { emailPage, messagePage, shopPage } from '../pages/pages.ts';
import { type PageResponse, page } from '../pages/response.ts';
import { signInPath } from '../provider.ts';
import type { ShopOfUser } from './account.ts';
import type { AuthorizationRequest } from './requests.ts';
import type { Upstream } from './upstream.ts';

/** The pages of a sign-in. Each is for one authorization request. */
export interface SignInPages {
  email(
    request: AuthorizationRequest,
    filled?: { email: string; problem: string },
  ): Promise<PageResponse>;
  shops(
    request: AuthorizationRequest,
    shops: readonly ShopOfUser[],
    problem?: string,
  ): Promise<PageResponse>;
  /** @param o.csrf the value that the form must contain. */
  consent(
    request: AuthorizationRequest,
    o: {
      readonly shop: ShopOfUser;
      readonly email: string;
      readonly csrf: string;
      readonly selfName: string | undefined;
    },
  ): PageResponse;
  /** No shop is linked to the e-mail address (interface: Errors). */
  noEmail(request: AuthorizationRequest): PageResponse;
  /** The identity provider confirmed another e-mail address than the user entered. */
  otherEmail(request: AuthorizationRequest): PageResponse;
  /** The address is linked to another account of the identity provider. */
  otherAccount(request: AuthorizationRequest): PageResponse;
  /** The user signed in, but not recently enough or not with the required method. */
  tooWeak(request: AuthorizationRequest): PageResponse;
}

/** The title and the text of each page that has no form. */
const MESSAGES = {
  noEmail: {
    title: 'No email was found',
    text: 'No shop is linked to the address that you signed in with. Ask the owner of your shop to add you, or connect again with another address.',
  },
  otherEmail: {
    title: 'You signed in with another address',
    text: 'You signed in with another address than the one you entered here, or your address is not confirmed. Connect again and use the same address on both pages.',
  },
  otherAccount: {
    title: 'Another account is linked to this address',
    text: 'In this shop, your address is linked to another account of the page where you sign in. If you have lost that account, ask an owner or admin of the shop to remove you from the team and add you again, or ask the operator of this service to unlink the account. Then connect again.',
  },
  tooWeak: {
    title: 'A fresh or stronger sign-in is needed',
    text: 'The page where you sign in must confirm that you have just signed in, or that you used a second factor. Connect again and sign in there again. If you see this page again, tell the operator of this service.',
  },
};

export function createSignInPages(o: {
  readonly clients: SupportedClients;
  readonly upstream: Upstream;
  /** Additional origins through which the identity provider redirects the browser. */
  readonly formOrigins: readonly string[];
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
}): SignInPages {
  const app = ({ clientId, redirectUri }: AuthorizationRequest): ConnectingApp => ({
    name: o.clients.nameOf(clientId, redirectUri),
    host: displayHost(redirectUri),
  });
  /** The origins to which a form before the sign-in may lead: those of the identity provider and of the app. */
  const formTargetsOf = async ({ redirectUri }: AuthorizationRequest): Promise<string[]> => [
    ...new Set([await o.upstream.origin(), ...o.formOrigins, formTarget(redirectUri)]),
  ];
  const message = (request: AuthorizationRequest, about: { title: string; text: string }) => {
    const body = messagePage({ ...about, cancel: `${signInPath(request.uid)}/cancel` });
    return page(body, { status: 403, formTargets: [formTarget(request.redirectUri)] });
  };

  return {
    async email(request, filled) {
      const action = signInPath(request.uid);
      return page(emailPage({ action, app: app(request), ...filled }), {
        status: filled ? 400 : 200,
        formTargets: await formTargetsOf(request),
      });
    },
    async shops(request, shops, problem) {
      const action = `${signInPath(request.uid)}/shop`;
      return page(shopPage({ action, app: app(request), shops, problem }), {
        status: problem === undefined ? 200 : 400,
        formTargets: await formTargetsOf(request),
      });
    },
    consent(request, { shop, email, csrf, selfName }) {
      const { uid, redirectUri } = request;
      const body = consentPage({
        allow: `${signInPath(uid)}/allow`,
        cancel: `${signInPath(uid)}/cancel`,
        app: app(request),
        isOnUsersMachine: isOnUsersMachine(redirectUri),
        selfName,
        shop,
        email,
        csrf,
        grantDays: o.grantDays,
      });
      return page(body, { formTargets: [formTarget(redirectUri)] });
    },
    noEmail: (request) => message(request, MESSAGES.noEmail),
    otherEmail: (request) => message(request, MESSAGES.otherEmail),
    otherAccount: (request) => message(request, MESSAGES.otherAccount),
    tooWeak: (request) => message(request, MESSAGES.tooWeak),
  };
}
