import {
  type BeginShopifyInstallRequest,
  ShopifyInstallProblem as Problem,
} from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { invalidField } from '../../../platform/errors.ts';
import type { Queryable } from '../../../platform/postgres.ts';
import type { ShopifyAppDeps } from './app.ts';
import { hashOfSecret, newLinkSecret } from './link-secret.ts';
import { parseQuery } from './query.ts';
import { NEEDED_SCOPES } from './scopes.ts';

/**
 * Opens an install link: makes the state of a new attempt, and returns the address at Shopify where the browser
 * continues. The link stays valid, because a browser or a preview may open it twice. An earlier attempt with the link
 * ends.
 *
 * @throws DomainError INVALID_ARGUMENT for a redirect that is not an address.
 */
export async function beginInstall(
  { app, pool }: ShopifyAppDeps,
  { query, redirectUrl }: BeginShopifyInstallRequest,
): Promise<
  { readonly problem: Problem } | { readonly authorizeUrl: string; readonly browser: string }
> {
  if (!app) return { problem: Problem.NOT_CONFIGURED };
  if (!URL.canParse(redirectUrl)) throw invalidField('redirect_url', 'must be an address');
  const link = parseQuery(query)?.get('link') ?? '';
  const attempt = { link, state: newLinkSecret(), browser: newLinkSecret() };
  const shopDomain = await storeAttempt(pool, attempt);
  if (shopDomain === undefined) return { problem: Problem.LINK };
  // Without `grant_options[]=per-user`, Shopify issues an offline token.
  const params = new URLSearchParams({
    client_id: app.clientId,
    scope: [...NEEDED_SCOPES, ...app.extraScopes].join(','),
    redirect_uri: redirectUrl,
    state: attempt.state,
  });
  const authorizeUrl = `https://${shopDomain}/admin/oauth/authorize?${params}`;
  return { authorizeUrl, browser: attempt.browser };
}

/** Stores the attempt. Returns the domain of the link's store; undefined when the link is not valid. */
async function storeAttempt(
  db: Queryable,
  o: { readonly link: string; readonly state: string; readonly browser: string },
): Promise<string | undefined> {
  const { rows } = await db.query<{ shopDomain: string }>(
    `update shopify_installs set state_hash = $2, browser_hash = $3, used_at = null
      where link_hash = $1 and expires_at > now() and connected_at is null
     returning shop_domain as "shopDomain"`,
    [hashOfSecret(o.link), hashOfSecret(o.state), hashOfSecret(o.browser)],
  );
  return rows[0]?.shopDomain;
}
