import type { Keyring } from '../../../platform/keyring.ts';
import type { Queryable } from '../../../platform/postgres.ts';
import type { Store } from './app.ts';
import type { Grant } from './token-exchange.ts';
import { loadCodeSecret, storeGrant } from './token-store.ts';

/**
 * Returns the domain of the store to which a shop is connected, with or without a token; undefined when it is connected
 * to none.
 */
export async function connectedStore(db: Queryable, shopId: bigint): Promise<string | undefined> {
  const { rows } = await db.query<{ shopDomain: string | null }>(
    'select shop_domain as "shopDomain" from commerce_connections where shop_id = $1 for update',
    [shopId],
  );
  return rows[0]?.shopDomain ?? undefined;
}

/** Whether a store is connected to another shop. */
export async function isStoreOfOther(
  db: Queryable,
  { shopId, shopDomain }: Store,
): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from commerce_connections where shop_domain = $1 and shop_id <> $2',
    [shopDomain, shopId],
  );
  return rowCount !== 0;
}

/**
 * Connects a shop to its store. The store replaces another provider. @throws when the store belongs to another shop.
 */
export async function connectStore(
  tx: Queryable,
  { shopId, shopDomain }: Store,
  o: Grant & { readonly keyring: Keyring },
): Promise<void> {
  const store = { shopId, shopDomain };
  const codeSecret = await loadCodeSecret(tx, o.keyring, store);
  await tx.query(
    `insert into commerce_connections (shop_id, adapter, shop_domain, scopes)
     values ($1, 'shopify', $2, $3)
     on conflict (shop_id) do update
       set adapter = 'shopify', url = null, shop_domain = excluded.shop_domain, scopes = excluded.scopes,
           uninstalled_at = null, code_key_id = null, code_sealed = null, updated_at = now(),
           connected_at = case when commerce_connections.shop_domain = excluded.shop_domain
                               then commerce_connections.connected_at else now() end`,
    [shopId, shopDomain, o.scopes.join(',')],
  );
  await tx.query('delete from commerce_secrets where shop_id = $1', [shopId]);
  await storeGrant(tx, o.keyring, { store, grant: o, codeSecret });
}
