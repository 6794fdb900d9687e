import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  type ConnectRequest,
  type DisconnectRequest,
  type RotateSecretRequest,
  RotateSecretRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError, invalidField } from '../../platform/errors.ts';
import { keyUseOf, oncePerKey } from '../../platform/idempotency.ts';
import { callerShape, parseInput, requiredText } from '../../platform/input.ts';
import type { Keyring } from '../../platform/keyring.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { createSecretStore, type Secret } from '../../platform/outbound/secrets.ts';
import { inTransaction, type Queryable } from '../../platform/postgres.ts';
import { URL_MAX } from '../../platform/text.ts';
import { stateForbids } from '../errors.ts';
import { loadSettings } from '../settings.ts';
import { requireKnownOutcomes } from './known-outcomes.ts';

export interface ConnectionDeps {
  readonly pool: pg.Pool;
  /** Encrypts secrets; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
  readonly policy: UrlPolicy;
}

interface Shop {
  readonly shopId: bigint;
}

/** The secrets that sign requests to a shop's endpoint. */
export const COMMERCE_SECRETS = createSecretStore<Shop>({
  table: 'commerce_secrets',
  owner: { shop_id: ({ shopId }) => shopId },
});

export interface Connection {
  readonly url: string;
  readonly connectedAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = 'url, connected_at as "connectedAt", updated_at as "updatedAt"';

const DEFAULT_OVERLAP_HOURS = 24;
const MAX_OVERLAP_HOURS = 168;

const connectInput = z.object({ ...callerShape, url: requiredText(URL_MAX) });

/**
 * Connects a shop to an endpoint, or changes its url. Only a new connection makes a secret.
 *
 * @throws DomainError INVALID_ARGUMENT for a url that is not allowed; SHOP_NOT_CONFIGURED; STATE_FORBIDS without a
 *   keyring.
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
    const { rows: before } = await tx.query<{ url: string }>(
      'select url from commerce_connections where shop_id = $1 for update',
      [shopId],
    );
    if (before[0]?.url !== url && !request.force) await requireKnownOutcomes(tx, shopId);
    const { rows } = await tx.query<Connection & { isNew: boolean }>(
      `insert into commerce_connections (shop_id, adapter, url) values ($1, 'http', $2)
       on conflict (shop_id) do update set url = excluded.url, updated_at = now()
       returning ${COLUMNS}, xmax = 0 as "isNew"`,
      [shopId, url],
    );
    const [row] = rows;
    if (!row) throw new Error('a connection was not stored');
    const { isNew, ...connection } = row;
    const secret = isNew ? await COMMERCE_SECRETS.add(tx, { shopId }, keyring) : undefined;
    return { connection, secret };
  });
}

/** @throws DomainError COMMERCE_CONNECTION_NOT_FOUND */
export async function getConnection(db: Queryable, shopId: bigint): Promise<Connection> {
  const { rows } = await db.query<Connection>(
    `select ${COLUMNS} from commerce_connections where shop_id = $1`,
    [shopId],
  );
  if (!rows[0]) throw notConnected();
  return rows[0];
}

/**
 * Makes a new secret. The earlier ones sign during the overlap.
 *
 * @throws DomainError COMMERCE_CONNECTION_NOT_FOUND; INVALID_ARGUMENT for an overlap that is too long; STATE_FORBIDS without a
 *   keyring.
 */
export async function rotateCommerceSecret(
  deps: ConnectionDeps,
  request: RotateSecretRequest,
): Promise<Secret> {
  const { shopId, overlapHours = DEFAULT_OVERLAP_HOURS } = request;
  if (overlapHours < 0 || overlapHours > MAX_OVERLAP_HOURS) {
    throw invalidField('overlap_hours', `must be 0 to ${MAX_OVERLAP_HOURS}`);
  }
  const keyring = requireKeyring(deps);
  const use = keyUseOf('Commerce.RotateSecret', RotateSecretRequestSchema, request);
  return inTransaction(deps.pool, async (tx) => {
    const { id } = await oncePerKey(tx, use, async () => {
      // The lock orders concurrent rotations.
      await tx.query('select from commerce_connections where shop_id = $1 for update', [shopId]);
      await getConnection(tx, shopId);
      return (await COMMERCE_SECRETS.rotate(tx, { shopId }, { keyring, overlapHours })).id;
    });
    await getConnection(tx, shopId);
    return COMMERCE_SECRETS.earlier(tx, { shopId }, { keyring, id });
  });
}

/**
 * Removes a connection with its secrets. Returns whether there was one.
 *
 * @throws DomainError STATE_FORBIDS without `force` while an effect has an unknown outcome: another provider does not
 *   know it, and would make it again.
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

/** @throws DomainError STATE_FORBIDS */
export function requireKeyring({ keyring }: ConnectionDeps): Keyring {
  if (keyring) return keyring;
  throw stateForbids(
    'the returns service has no COMMERCE_KEYRING, so it cannot store the secret of a connection',
  );
}

export function notConnected(): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.COMMERCE_CONNECTION_NOT_FOUND,
    'the shop is not connected to a commerce provider',
  );
}

export function connectionMessage({ url, connectedAt, updatedAt }: Connection) {
  return {
    url,
    connectedAt: timestampFromDate(connectedAt),
    updatedAt: timestampFromDate(updatedAt),
  };
}

export function commerceSecretMessage({ value, createdAt }: Secret) {
  return { value, createdAt: timestampFromDate(createdAt) };
}
