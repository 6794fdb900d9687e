import { z } from 'zod';
import type { CreateShopifyInstallLinkRequest } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { stateForbids } from '../../../platform/errors.ts';
import { callerShape, parseInput } from '../../../platform/input.ts';
import { inTransaction, type Queryable } from '../../../platform/postgres.ts';
import { loadSettings } from '../../settings.ts';
import { requireKeyring } from '../connection-store.ts';
import { requireKnownOutcomes } from '../known-outcomes.ts';
import { isShopDomain } from '../shopify/shapes.ts';
import type { ShopifyAppDeps } from './app.ts';
import { hashOfSecret, newLinkSecret } from './link-secret.ts';
import { connectedStore, isStoreOfOther } from './stores.ts';

/** How long an install link is valid. Minutes. */
const LINK_MINUTES = 15;

const linkInput = z.object({
  ...callerShape,
  shopDomain: z.string().refine(isShopDomain, 'must be <name>.myshopify.com, in lower case'),
});

/**
 * Makes the link with which a merchant connects a shop to its store. It replaces an earlier link of the shop.
 *
 * @throws DomainError INVALID_ARGUMENT for a domain that is none of Shopify; SHOP_NOT_CONFIGURED; STATE_FORBIDS without
 *   app or keyring, for the store of another shop, and while an effect of another provider has an unknown outcome.
 */
export async function createInstallLink(
  deps: ShopifyAppDeps,
  request: CreateShopifyInstallLinkRequest,
): Promise<{ readonly link: string; readonly expiresAt: Date }> {
  const { shopId, shopDomain } = parseInput(linkInput, request);
  if (!deps.app) throw stateForbids('the returns service has no SHOPIFY_CLIENT_ID');
  requireKeyring(deps);
  return inTransaction(deps.pool, async (tx) => {
    await loadSettings(tx, shopId);
    if (await isStoreOfOther(tx, { shopId, shopDomain })) {
      throw stateForbids(`${shopDomain} is connected to another shop`);
    }
    if ((await connectedStore(tx, shopId)) !== shopDomain) await requireKnownOutcomes(tx, shopId);
    const link = newLinkSecret();
    return { link, expiresAt: await storeLink(tx, { shopId, shopDomain, link }) };
  });
}

async function storeLink(
  tx: Queryable,
  o: { readonly shopId: bigint; readonly shopDomain: string; readonly link: string },
): Promise<Date> {
  const { rows } = await tx.query<{ expiresAt: Date }>(
    `insert into shopify_installs (shop_id, shop_domain, link_hash, expires_at)
     values ($1, $2, $3, now() + make_interval(mins => $4))
     on conflict (shop_id) do update
       set shop_domain = excluded.shop_domain, link_hash = excluded.link_hash, expires_at = excluded.expires_at,
           state_hash = null, browser_hash = null, used_at = null, connected_at = null
     returning expires_at as "expiresAt"`,
    [o.shopId, o.shopDomain, hashOfSecret(o.link), LINK_MINUTES],
  );
  if (!rows[0]) throw new Error('an install link was not stored');
  return rows[0].expiresAt;
}
