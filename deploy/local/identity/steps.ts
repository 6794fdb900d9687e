import type Provider from 'oidc-provider';
import { displayHost, formTarget } from '../../../gateway/oauth/clients/redirect-uri.ts';
import { shopPage } from '../../../gateway/oauth/pages/pages.ts';
import { type PageResponse, page } from '../../../gateway/oauth/pages/response.ts';
import type { ShopOfAccount } from './directory.ts';
import { notAllowedPage, partnerConsentPage, signInPage } from './pages.ts';
import { appOf, GRANT_DAYS, type ProviderOptions } from './provider.ts';
import { requestedScopes, textsOf } from './scopes.ts';

export type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;

export const signInProblem = 'That e-mail address and password do not belong together.';

/** Whether the request is of a partner's app, and not of this service's own sign-in. */
export function isPartner({ params }: Interaction, options: ProviderOptions): boolean {
  return appOf(options, String(params.client_id)) !== undefined;
}

/** The pages of one interaction. */
export function pagesOf(interaction: Interaction, options: ProviderOptions) {
  const { uid, params } = interaction;
  const at = `/interaction/${uid}`;
  const redirectUri = String(params.redirect_uri);
  const { name } = appOf(options, String(params.client_id)) ?? options.partner;
  const app = { name, host: displayHost(redirectUri) };
  // After the sign-in of this service's own users, browsers follow redirects to the app of an assistant at any address.
  const formTargets = isPartner(interaction, options)
    ? [formTarget(redirectUri)]
    : ('any' as const);
  const shown = (body: string, status: number): PageResponse => page(body, { status, formTargets });
  return {
    signIn: (o: { readonly email: string; readonly problem?: string }) =>
      shown(signInPage({ action: `${at}/sign-in`, ...o }), o.problem === undefined ? 200 : 401),
    shops: (shops: readonly ShopOfAccount[], problem?: string) =>
      shown(
        shopPage({ action: `${at}/shop`, app, shops, problem }),
        problem === undefined ? 200 : 400,
      ),
    consent: (o: { readonly shop: ShopOfAccount; readonly email: string; readonly csrf: string }) =>
      shown(
        partnerConsentPage({
          allow: `${at}/allow`,
          deny: `${at}/cancel`,
          app,
          rights: textsOf(requestedScopes(params.scope)),
          days: GRANT_DAYS,
          ...o,
        }),
        200,
      ),
    notAllowed: (email: string, shops: readonly ShopOfAccount[]) =>
      shown(notAllowedPage({ app: app.name, email, shops, cancel: `${at}/cancel` }), 403),
  };
}
