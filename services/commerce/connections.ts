import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import {
  Check,
  CommerceAdapter,
  type ConnectRequest,
  type DisconnectRequest,
  type RotateSecretRequest,
  RotateSecretRequestSchema,
  type RunCheckRequest,
  type StartCheckRequest,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Settings } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { RestockMode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SECRET_OVERLAP_HOURS_DEFAULT, SECRET_OVERLAP_HOURS_MAX } from '../contract/limits.ts';
import { checkUrl, type UrlPolicy } from '../platform/outbound/guard.ts';
import { createSecretStore, type Secret } from '../platform/outbound/secrets.ts';
import { signingKeyOf } from '../platform/outbound/signature.ts';
import { inTransaction, type Queryable } from '../platform/postgres/postgres.ts';
import type { Keyring } from '../platform/security/keyring.ts';
import { DomainError, invalidField, stateForbids } from '../platform/values/errors.ts';
import { keyUseOf, oncePerKey } from '../platform/values/idempotency.ts';
import { callerShape, id, parseInput, requiredText, text } from '../platform/values/input.ts';
import { URL_MAX } from '../platform/values/text.ts';
import { checkEndpoint } from './check/checks.ts';
import type { CheckRun, CheckRuns } from './check/runs.ts';
import type { CheckTarget } from './check/session.ts';
import type { CommerceClient } from './http/client.ts';
import { scopesIn } from './shopify-app/app.ts';
import { requireKnownOutcomes } from './unknown-outcomes.ts';

export interface ConnectionDeps {
  readonly pool: pg.Pool;
  /** Encrypts secrets; undefined when COMMERCE_KEYRING is not set. */
  readonly keyring: Keyring | undefined;
  readonly policy: UrlPolicy;
  /** Reads the returns settings of a shop. @throws DomainError SHOP_NOT_CONFIGURED */
  readonly loadSettings: (db: Queryable, shopId: bigint) => Promise<Settings>;
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
    await deps.loadSettings(tx, shopId);
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

interface Shop {
  readonly shopId: bigint;
}

/** The secrets that sign requests to the endpoints of shops. */
export const COMMERCE_SECRETS = createSecretStore<Shop>({
  table: 'commerce_secrets',
  owner: { shop_id: ({ shopId }) => shopId },
});

interface Connection {
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
const CONNECTION_COLUMNS = `adapter, url, shop_domain as "shopDomain", scopes, uninstalled_at as "uninstalledAt",
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

const checkInput = z.object({
  ...callerShape,
  check: z.enum(Check, 'is unknown').refine((check) => check !== Check.UNSPECIFIED, 'is required'),
  providerOrderId: id,
  orderName: text(191),
  orderExists: z.boolean(),
});

/**
 * Runs one check of a shop's endpoint. When the endpoint does not answer, this is the result of the check, and the call
 * succeeds.
 *
 * @throws DomainError COMMERCE_CONNECTION_NOT_FOUND; INVALID_ARGUMENT; STATE_FORBIDS without a keyring, and for a shop
 *   that is connected to Shopify.
 */
export async function runCheck(
  deps: ConnectionDeps & { readonly client: CommerceClient },
  request: RunCheckRequest,
) {
  const { shopId, check, ...about } = parseInput(checkInput, request);
  const { providerOrderId, orderName: name, orderExists: mustBeFound } = about;
  const target = await checkTarget(deps, shopId, { id: providerOrderId, name, mustBeFound });
  return checkEndpoint(target, check);
}

/** The order of a check, when the caller names none. It need not exist. */
const TEST_ORDER = { id: 1n, name: '#1' };

const startInput = z.object({
  ...callerShape,
  testOrderId: id.optional(),
  testOrderName: text(191),
});

/**
 * Begins to ask a shop's endpoint all questions, in the background.
 *
 * @throws DomainError as {@link runCheck}, and as {@link CheckRuns.start}; INVALID_ARGUMENT for the name of an order
 *   without its id.
 */
export async function startCheck(
  deps: ConnectionDeps & { readonly client: CommerceClient; readonly checkRuns: CheckRuns },
  request: StartCheckRequest,
): Promise<CheckRun> {
  const { shopId, testOrderId, testOrderName: name } = parseInput(startInput, request);
  if (name !== '' && testOrderId === undefined) {
    throw invalidField('test_order_id', 'is required with test_order_name');
  }
  const order = {
    id: testOrderId ?? TEST_ORDER.id,
    name: name || TEST_ORDER.name,
    mustBeFound: name !== '',
  };
  return deps.checkRuns.start(await checkTarget(deps, shopId, order));
}

/** What a check of a shop's endpoint needs. @throws DomainError as {@link runCheck} */
async function checkTarget(
  deps: ConnectionDeps & { readonly client: CommerceClient },
  shopId: bigint,
  order: CheckTarget['order'],
): Promise<CheckTarget> {
  const keyring = requireKeyring(deps);
  const url = await getEndpoint(deps.pool, shopId);
  const { currency, restockMode } = await deps.loadSettings(deps.pool, shopId);
  const mustRestock = restockMode === RestockMode.PROVIDER;
  const secrets = await COMMERCE_SECRETS.list(deps.pool, { shopId }, keyring);
  const keys = secrets.map(({ value }) => signingKeyOf(value));
  return { client: deps.client, url, keys, shopId, order, currency, mustRestock };
}
