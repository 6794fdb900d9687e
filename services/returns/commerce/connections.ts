import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import {
  CommerceAdapter,
  type ConnectRequest,
  type DisconnectRequest,
  type RotateSecretRequest,
  RotateSecretRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { SECRET_OVERLAP_HOURS_DEFAULT, SECRET_OVERLAP_HOURS_MAX } from '../../contract/limits.ts';
import { invalidField } from '../../platform/errors.ts';
import { keyUseOf, oncePerKey } from '../../platform/idempotency.ts';
import { callerShape, parseInput, requiredText } from '../../platform/input.ts';
import type { Keyring } from '../../platform/keyring.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import type { Secret } from '../../platform/outbound/secrets.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { URL_MAX } from '../../platform/text.ts';
import { loadSettings } from '../settings.ts';
import {
  COMMERCE_SECRETS,
  CONNECTION_COLUMNS,
  type Connection,
  getEndpoint,
  requireKeyring,
} from './connection-store.ts';
import { requireKnownOutcomes } from './known-outcomes.ts';
import { scopesIn } from './shopify-app/scopes.ts';

export interface ConnectionDeps {
  readonly pool: pg.Pool;
  /** Encrypts secrets; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
  readonly policy: UrlPolicy;
}

const connectInput = z.object({ ...callerShape, url: requiredText(URL_MAX) });

/**
 * Connects a shop to an HTTP endpoint. The endpoint replaces the shop's former provider. When the shop already has an
 * endpoint, its url changes and its secret stays.
 *
 * @throws DomainError INVALID_ARGUMENT for a url that is not allowed; SHOP_NOT_CONFIGURED; STATE_FORBIDS without a
 *   keyring, and without `force` while an effect has an unknown outcome.
 */
export async function connectShop(
  deps: ConnectionDeps,
  request: ConnectRequest,
): Promise<{ readonly connection: Connection; readonly secret: Secret | undefined }> {
  const { shopId, url } = parseInput(connectInput, request);
  const check = checkUrl(url, deps.policy);
  if (!check.ok) throw invalidField('url', check.message);
  const keyring = requireKeyring(deps);
  return inTransaction(deps.pool, async (tx) => {
    await loadSettings(tx, shopId);
    const { rows: before } = await tx.query<Pick<Connection, 'adapter' | 'url'>>(
      'select adapter, url from commerce_connections where shop_id = $1 for update',
      [shopId],
    );
    if (before[0]?.url !== url && !request.force) await requireKnownOutcomes(tx, shopId);
    const wasStore = before[0]?.adapter === 'shopify';
    const { rows } = await tx.query<Connection & { isNew: boolean }>(
      `insert into commerce_connections (shop_id, adapter, url) values ($1, 'http', $2)
       on conflict (shop_id) do update
         set adapter = 'http', url = excluded.url, shop_domain = null, scopes = '', uninstalled_at = null,
             code_key_id = null, code_sealed = null, updated_at = now(),
             connected_at = case when commerce_connections.adapter = 'http'
                                 then commerce_connections.connected_at else now() end
       returning ${CONNECTION_COLUMNS}, xmax = 0 as "isNew"`,
      [shopId, url],
    );
    const [row] = rows;
    if (!row) throw new Error('a connection was not stored');
    const { isNew, ...connection } = row;
    if (wasStore) await tx.query('delete from shopify_tokens where shop_id = $1', [shopId]);
    const needsSecret = isNew || wasStore;
    const secret = needsSecret ? await COMMERCE_SECRETS.add(tx, { shopId }, keyring) : undefined;
    return { connection, secret };
  });
}

/**
 * Makes a new secret. Earlier secrets also sign during the overlap.
 *
 * @throws DomainError COMMERCE_CONNECTION_NOT_FOUND; INVALID_ARGUMENT for an overlap that is too long;
 *   IDEMPOTENCY_CONFLICT; STATE_FORBIDS without a keyring, and for a shop that is connected to Shopify.
 */
export async function rotateCommerceSecret(
  deps: ConnectionDeps,
  request: RotateSecretRequest,
): Promise<Secret> {
  const { shopId, overlapHours = SECRET_OVERLAP_HOURS_DEFAULT } = request;
  if (overlapHours < 0 || overlapHours > SECRET_OVERLAP_HOURS_MAX) {
    throw invalidField('overlap_hours', `must be 0 to ${SECRET_OVERLAP_HOURS_MAX}`);
  }
  const keyring = requireKeyring(deps);
  const use = keyUseOf('Commerce.RotateSecret', RotateSecretRequestSchema, request);
  return inTransaction(deps.pool, async (tx) => {
    const { id } = await oncePerKey(tx, use, async () => {
      // This lock makes concurrent rotations run one after another.
      await tx.query('select from commerce_connections where shop_id = $1 for update', [shopId]);
      await getEndpoint(tx, shopId);
      return (await COMMERCE_SECRETS.rotate(tx, { shopId }, { keyring, overlapHours })).id;
    });
    await getEndpoint(tx, shopId);
    return COMMERCE_SECRETS.earlier(tx, { shopId }, { keyring, id });
  });
}

/**
 * Removes a connection, with its secrets or its token. Returns whether there was one.
 *
 * @throws DomainError STATE_FORBIDS without `force` while an effect has an unknown outcome. Another provider does not
 *   know this effect, and would make it again.
 */
export function disconnectShop(
  pool: pg.Pool,
  { shopId, force }: Pick<DisconnectRequest, 'shopId' | 'force'>,
): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    const { rowCount } = await tx.query('delete from commerce_connections where shop_id = $1', [
      shopId,
    ]);
    if (rowCount === 1 && !force) await requireKnownOutcomes(tx, shopId);
    return rowCount === 1;
  });
}

const ADAPTERS = { http: CommerceAdapter.HTTP, shopify: CommerceAdapter.SHOPIFY };

export function connectionMessage(connection: Connection) {
  const { uninstalledAt, refusedAt } = connection;
  return {
    adapter: ADAPTERS[connection.adapter],
    url: connection.url ?? '',
    shopDomain: connection.shopDomain ?? '',
    scopes: [...scopesIn(connection.scopes)],
    ...(uninstalledAt && { uninstalledAt: timestampFromDate(uninstalledAt) }),
    ...(refusedAt && { refusedAt: timestampFromDate(refusedAt) }),
    connectedAt: timestampFromDate(connection.connectedAt),
    updatedAt: timestampFromDate(connection.updatedAt),
  };
}

export function commerceSecretMessage({ value, createdAt }: Secret) {
  return { value, createdAt: timestampFromDate(createdAt) };
}
