import type { ShopOfUser } from './account.ts';
import { displayHost, isOnOwnMachine } from './clients/redirect-uri.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { type Asking, consentPage, emailPage, messagePage, shopPage } from './pages/pages.ts';
import { type PageResponse, page } from './pages/response.ts';
import { signInPath } from './provider.ts';
import type { AuthorizationRequest } from './requests.ts';
import type { Upstream } from './upstream.ts';

/** The pages of a sign-in, each for one authorization request. */
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
    o: { readonly shop: ShopOfUser; readonly email: string; readonly csrf: string },
  ): PageResponse;
  /** No shop is linked to the e-mail address (interface: Errors). */
  noEmail(request: AuthorizationRequest): PageResponse;
  /** The identity provider confirmed another e-mail address than the one entered. */
  otherEmail(request: AuthorizationRequest): PageResponse;
  /** The address is linked to another account of the identity provider. */
  otherAccount(request: AuthorizationRequest): PageResponse;
  /** The person signed in, but not recently enough or not with the required method. */
  tooWeak(request: AuthorizationRequest): PageResponse;
}

/** The title and the text of each page without a form. */
const MESSAGES = {
  noEmail: {
    title: 'No email was found',
    text: 'No shop is linked to the address that you signed in with. Ask the owner of your shop to add you, or connect again with another address.',
  },
  otherEmail: {
    title: 'That was another address',
    text: 'You signed in with another address than the one you gave, or with one that is not confirmed. Connect again and use the same address in both places.',
  },
  otherAccount: {
    title: 'Another account is linked to this address',
    text: 'The shop knows your address by another account of the page where you sign in. If that account was yours and is gone, ask an owner or admin of the shop to remove you from the team and add you again, or the operator of this service to unlink it. Then connect again.',
  },
  tooWeak: {
    title: 'A fresh or stronger sign-in is needed',
    text: 'The page where you sign in did not confirm what is needed here: that you have just signed in, or that you used a second factor. Connect again and sign in there once more. If this page comes again, tell the operator of this service.',
  },
};

export function createSignInPages(o: {
  readonly clients: SupportedClients;
  readonly upstream: Upstream;
  /** Additional origins that the identity provider redirects through. */
  readonly formOrigins: readonly string[];
  /** Maximum lifetime of a grant. Days. */
  readonly grantDays: number;
}): SignInPages {
  const asking = ({ clientId, redirectUri }: AuthorizationRequest): Asking => ({
    name: o.clients.nameOf(clientId, redirectUri),
    host: displayHost(redirectUri),
  });
  /** The origins that a form before the sign-in may lead to: the identity provider's, and the app's. */
  const anywhere = async ({ redirectUri }: AuthorizationRequest): Promise<string[]> => [
    ...new Set([await o.upstream.origin(), ...o.formOrigins, formTarget(redirectUri)]),
  ];
  const message = (request: AuthorizationRequest, about: { title: string; text: string }) => {
    const body = messagePage({ ...about, cancel: `${signInPath(request.uid)}/cancel` });
    return page(body, { status: 403, formTargets: [formTarget(request.redirectUri)] });
  };

  return {
    async email(request, filled) {
      const action = signInPath(request.uid);
      return page(emailPage({ action, asking: asking(request), ...filled }), {
        status: filled ? 400 : 200,
        formTargets: await anywhere(request),
      });
    },
    async shops(request, shops, problem) {
      const action = `${signInPath(request.uid)}/shop`;
      return page(shopPage({ action, asking: asking(request), shops, problem }), {
        status: problem === undefined ? 200 : 400,
        formTargets: await anywhere(request),
      });
    },
    consent(request, { shop, email, csrf }) {
      const { uid, redirectUri } = request;
      const body = consentPage({
        allow: `${signInPath(uid)}/allow`,
        cancel: `${signInPath(uid)}/cancel`,
        asking: asking(request),
        isOnOwnMachine: isOnOwnMachine(redirectUri),
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

/** A source expression for a content security policy. It has no syntax for IPv6 addresses, so the scheme is used. */
function formTarget(redirectUri: string): string {
  const { protocol, origin } = new URL(redirectUri);
  const isNamed = protocol === 'https:' || protocol === 'http:';
  return isNamed && !origin.includes('[') ? origin : protocol;
}
