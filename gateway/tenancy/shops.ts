import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { onlyRow } from '../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { CURRENCIES, decimalsOf } from '../../services/platform/values/currencies.ts';
import { DomainError, invalidField } from '../../services/platform/values/errors.ts';
import type { Services } from '../services.ts';
import { type Author, recordAudit } from './audit.ts';
import { ensureUser, requireHonestName } from './users.ts';

export interface Shop {
  readonly id: bigint;
  readonly name: string;
  /** ISO 4217. */
  readonly currency: string;
  /** A sandbox moves no money. See `environment.ts`. */
  readonly sandbox: boolean;
  readonly createdAt: Date;
  readonly configuredAt: Date | null;
}

/** Maximum length of a shop's name, as in the table. Unicode characters. */
const MAX_NAME_LENGTH = 191;

/** The role of the first member. It is owner, so that each shop has somebody with all permissions. */
const FOUNDER_ROLE = 'owner';

export interface NewShop {
  readonly name: string;
  /** ISO 4217, any case. */
  readonly currency: string;
  readonly ownerEmail: string;
  /** Initial API version of the shop's webhook payloads. Callers pass the newest active version. */
  readonly payloadVersion: string;
  /**
   * Whether the shop is a sandbox, whose returns are processed without moving money. A repeated call may leave it out.
   */
  readonly sandbox?: boolean;
  readonly by: Author;
}

/**
 * Creates a shop with its owner, and sends its settings to the services that need them.
 *
 * Idempotent: a second call with the same owner and name returns the existing shop. If the first call was interrupted,
 * the second one completes it. Settings that a service already has stay as they are.
 *
 * @throws DomainError for an unknown currency, a withdrawn one of a new shop, a blank name, a shop that exists with another currency, or a sandbox
 *   that exists as a live shop.
 */
export async function createShop(
  pool: pg.Pool,
  services: Pick<Services, 'returns' | 'webhooks'>,
  shop: NewShop,
): Promise<Shop> {
  const stored = await inTransaction(pool, (tx) => storeShop(tx, shop));
  if (stored.configuredAt) return stored;
  const { actor } = shop.by;
  const { id: shopId, currency, sandbox } = stored;
  await services.returns.updateSettings({ shopId, actor, settings: { currency, sandbox } });
  if (sandbox) await services.webhooks.setSandbox({ shopId, actor, sandbox });
  await services.webhooks.setPayloadVersion({ shopId, actor, version: shop.payloadVersion });
  const result = await pool.query<{ configuredAt: Date }>(
    'update shops set configured_at = coalesce(configured_at, now()) where id = $1 returning configured_at as "configuredAt"',
    [shopId],
  );
  return { ...stored, configuredAt: onlyRow(result).configuredAt };
}

async function storeShop(tx: pg.PoolClient, shop: NewShop): Promise<Shop> {
  const currency = shop.currency.toUpperCase();
  if (decimalsOf(currency) === undefined)
    throw invalidField('currency', 'must be an ISO 4217 code');
  const length = [...shop.name].length;
  if (shop.name.trim() === '' || length > MAX_NAME_LENGTH) {
    throw invalidField('name', `must have 1 to ${MAX_NAME_LENGTH} characters`);
  }
  requireHonestName(shop.name);
  const owner = await ensureUser(tx, shop.ownerEmail);
  const inserted = await tx.query<Shop>(
    `insert into shops (name, currency, founder_id, sandbox) values ($1, $2, $3, $4)
     on conflict on constraint shops_founder_name_unique do nothing returning ${COLUMNS}`,
    [shop.name, currency, owner.id, shop.sandbox ?? false],
  );
  const [added] = inserted.rows;
  if (!added) return existingShop(tx, { ...shop, founderId: owner.id, currency });
  if (CURRENCIES.withdrawn.has(currency)) {
    throw invalidField(
      'currency',
      'was withdrawn from ISO 4217: use the currency that replaced it',
    );
  }
  await tx.query('insert into memberships (shop_id, user_id, role) values ($1, $2, $3)', [
    added.id,
    owner.id,
    FOUNDER_ROLE,
  ]);
  await recordAudit(tx, {
    shopId: added.id,
    by: shop.by,
    action: 'shop.created',
    subject: String(added.id),
    detail: { currency, owner_user_id: String(owner.id), ...(added.sandbox && { sandbox: true }) },
  });
  return added;
}

async function existingShop(
  tx: Queryable,
  o: { name: string; founderId: bigint; currency: string; sandbox?: boolean },
): Promise<Shop> {
  const { rows } = await tx.query<Shop>(
    `select ${COLUMNS} from shops where founder_id = $1 and name = $2`,
    [o.founderId, o.name],
  );
  const [shop] = rows;
  if (!shop) throw new Error('the shop was deleted between two statements');
  if (o.sandbox && !shop.sandbox) {
    const text = `shop ${shop.id} exists and is live: \`shop sandbox --shop ${shop.id} --on\` changes that`;
    throw new DomainError(Code.AlreadyExists, ErrorReason.STATE_FORBIDS, text, {
      field: 'sandbox',
    });
  }
  if (shop.currency === o.currency) return shop;
  throw new DomainError(
    Code.AlreadyExists,
    ErrorReason.STATE_FORBIDS,
    `shop ${shop.id} exists with the currency ${shop.currency}, which cannot be changed`,
    { field: 'currency' },
  );
}

/** All shops, id ascending. */
export async function listShops(db: Queryable): Promise<Shop[]> {
  const { rows } = await db.query<Shop>(`select ${COLUMNS} from shops order by id`);
  return rows;
}

/** @throws DomainError NOT_FOUND when there is no such shop. */
export async function requireShop(db: Queryable, shopId: bigint): Promise<Shop> {
  const { rows } = await db.query<Shop>(`select ${COLUMNS} from shops where id = $1`, [shopId]);
  const [shop] = rows;
  if (shop) return shop;
  throw new DomainError(
    Code.NotFound,
    ErrorReason.UNSPECIFIED,
    `there is no shop ${shopId}; \`shop list\` shows those that exist`,
  );
}

const COLUMNS = `id, name, currency, sandbox, created_at as "createdAt", configured_at as "configuredAt"`;
