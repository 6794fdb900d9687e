import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError, stateForbids } from '../../platform/errors.ts';
import type { Keyring } from '../../platform/keyring.ts';
import { createSecretStore } from '../../platform/outbound/secrets.ts';
import type { Queryable } from '../../platform/postgres.ts';

interface Shop {
  readonly shopId: bigint;
}

/** The secrets that sign requests to the endpoints of shops. */
export const COMMERCE_SECRETS = createSecretStore<Shop>({
  table: 'commerce_secrets',
  owner: { shop_id: ({ shopId }) => shopId },
});

export interface Connection {
  readonly adapter: 'http' | 'shopify';
  /** The address of an endpoint; null for Shopify. */
  readonly url: string | null;
  /** The domain of a store at Shopify; null for an endpoint. */
  readonly shopDomain: string | null;
  /** The scopes that the store granted, separated by commas; empty for an endpoint. */
  readonly scopes: string;
  /** When the merchant removed the app; null while it is installed. */
  readonly uninstalledAt: Date | null;
  /** When Shopify began to refuse refreshing the token; null while it does not refuse. */
  readonly refusedAt: Date | null;
  readonly connectedAt: Date;
  readonly updatedAt: Date;
}

/** SQL: the columns of a {@link Connection}. */
export const CONNECTION_COLUMNS = `adapter, url, shop_domain as "shopDomain", scopes, uninstalled_at as "uninstalledAt",
       connected_at as "connectedAt", updated_at as "updatedAt",
       (select refused_at from shopify_tokens t where t.shop_id = commerce_connections.shop_id) as "refusedAt"`;

/** Reads a connection. @throws DomainError COMMERCE_CONNECTION_NOT_FOUND */
export async function getConnection(db: Queryable, shopId: bigint): Promise<Connection> {
  const { rows } = await db.query<Connection>(
    `select ${CONNECTION_COLUMNS} from commerce_connections where shop_id = $1`,
    [shopId],
  );
  if (!rows[0]) throw notConnected();
  return rows[0];
}

/**
 * Returns the address of a shop's endpoint.
 *
 * @throws DomainError COMMERCE_CONNECTION_NOT_FOUND; STATE_FORBIDS for a shop that is connected to Shopify.
 */
export async function getEndpoint(db: Queryable, shopId: bigint): Promise<string> {
  const { url } = await getConnection(db, shopId);
  if (url === null) throw stateForbids('the shop is connected to Shopify, not to an endpoint');
  return url;
}

/** Returns the keyring. @throws DomainError STATE_FORBIDS when there is none. */
export function requireKeyring({ keyring }: { readonly keyring: Keyring | undefined }): Keyring {
  if (keyring) return keyring;
  throw stateForbids(
    'the returns service has no COMMERCE_KEYRING, so it cannot store the secrets of a connection',
  );
}

export function notConnected(): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.COMMERCE_CONNECTION_NOT_FOUND,
    'the shop is not connected to a commerce provider',
  );
}
