import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { isScope, SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { actorKindText } from '../../services/platform/actor.ts';
import { DomainError, invalidField } from '../../services/platform/errors.ts';
import { onlyRow } from '../../services/platform/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres.ts';
import { param, type Sql, sql, unnamed } from '../../services/platform/sql.ts';
import { hashSecret, newKey, type ParsedKey, parseKey } from '../auth/key-format.ts';
import { type Author, recordAudit } from './audit.ts';
import { requireShop } from './shops.ts';

/** Maximum length of a description, as in the table. Unicode characters. */
const MAX_DESCRIPTION_LENGTH = 191;

/** Maximum number of active keys of a shop (neither revoked nor expired). */
const MAX_KEYS_PER_SHOP = 100;

/** Maximum number of revoked and expired keys in a list, by default. */
const MAX_ENDED = 1_000;

/** A stored key without its secret. */
export interface ApiKey {
  readonly shopId: bigint;
  readonly keyId: string;
  /**
   * Whether the key was made for a sandbox shop. A key works only while its shop is of the kind that the key was made
   * for.
   */
  readonly sandbox: boolean;
  readonly scopes: readonly Scope[];
  readonly description: string;
  /** REST requests per minute; null for the default. */
  readonly restPerMinute: number | null;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
  readonly expiresAt: Date | null;
  /** Compared with the clock of the database, as in `api-key-check.ts`. */
  readonly hasExpired: boolean;
  readonly revokedAt: Date | null;
  /** Null for keys that are older than this column. */
  readonly createdByKind: string | null;
  readonly createdById: string | null;
  /** Name of the user who made the key; null when unknown, or when no user made it. */
  readonly createdByName: string | null;
  /** Id of the key that replaced this one in a rotation. */
  readonly replacedBy: string | null;
  /** The last operation that used the key within 90 days, such as `GET /cart/{token}`. */
  readonly lastOperation: string | null;
}

export interface NewApiKey {
  readonly shopId: bigint;
  readonly scopes: readonly string[];
  readonly description: string;
  readonly expiresAt?: Date;
  readonly restPerMinute?: number;
  /**
   * The whole text of the key. Only the local stack sets it, so that its keys stay the same after a restart. A second
   * call with the same text returns the existing key.
   */
  readonly text?: string;
  readonly by: Author;
}

/**
 * Creates a key and returns its text. The text is not stored and cannot be shown again.
 *
 * @throws DomainError for an unknown scope or shop; RESOURCE_EXHAUSTED when the shop has 100 keys that are
 *   neither revoked nor expired.
 */
export async function createApiKey(
  pool: pg.Pool,
  key: NewApiKey,
): Promise<{ text: string; keyId: string }> {
  const scopes = key.scopes.map(requireScope);
  if ([...key.description].length > MAX_DESCRIPTION_LENGTH)
    throw invalidField('description', `must have up to ${MAX_DESCRIPTION_LENGTH} characters`);
  const given = key.text === undefined ? undefined : keyFromText(key.text);
  return await inTransaction(pool, async (tx) => {
    // The lock serializes the key creations of one shop, so that the quota is exact. A switch of the shop's environment
    // waits for the lock, too.
    await tx.query('select id from shops where id = $1 for no key update', [key.shopId]);
    const { sandbox } = await requireShop(tx, key.shopId);
    const created = given ?? newKey({ sandbox });
    if (await hasKey(tx, key.shopId, created.keyId))
      return { text: created.text, keyId: created.keyId };
    if (created.sandbox !== sandbox) {
      throw invalidField('text', `must be a key of a ${sandbox ? 'sandbox' : 'live'} shop`);
    }
    await requireKeyQuota(tx, key.shopId);
    await insertApiKey(tx, { ...key, scopes }, created);
    return { text: created.text, keyId: created.keyId };
  });
}

/** The values of a new row of `api_keys`. */
export interface ApiKeyRow {
  readonly shopId: bigint;
  readonly scopes: readonly Scope[];
  readonly description: string;
  readonly restPerMinute?: number | null | undefined;
  readonly expiresAt?: Date | null | undefined;
  /** The keyed call that makes the key; absent for other calls. */
  readonly creation?: KeyCreation;
  readonly by: Author;
}

/** Identifies a call that makes an API key, so that its repeat does not make a second one. */
export interface KeyCreation {
  /** The idempotency key: 1 to 200 characters. */
  readonly key: string;
  /** SHA-256 of the content of the call. */
  readonly hash: Buffer;
}

/** Stores a key with its entry in the audit log. */
export async function insertApiKey(
  tx: Queryable,
  key: ApiKeyRow,
  { keyId, secret, sandbox }: ParsedKey,
): Promise<void> {
  const { shopId, by, scopes } = key;
  const kind = actorKindText.toText(by.actor.kind ?? Actor_Kind.UNSPECIFIED);
  await tx.query(
    unnamed(sql`
insert into api_keys (shop_id, key_id, secret_hash, scopes, description, rest_per_minute, expires_at, sandbox,
                      created_by_kind, created_by_id, creation_key, creation_hash)
values (${shopId}, ${keyId}, ${hashSecret(secret)}, ${[...new Set(scopes)]}, ${key.description},
        ${key.restPerMinute ?? null}, ${key.expiresAt ?? null}, ${sandbox},
        ${kind}, ${by.actor.id}, ${key.creation?.key ?? null}, ${key.creation?.hash ?? null})`),
  );
  const detail = { scopes };
  await recordAudit(tx, { shopId, by, action: 'api_key.created', subject: keyId, detail });
}

/**
 * Revokes a key. Within 5 seconds, every replica rejects it. Idempotent.
 *
 * @param key.keyId the key's id, or its whole text.
 * @throws DomainError NOT_FOUND when the shop has no such key.
 */
export function revokeApiKey(
  pool: pg.Pool,
  key: { shopId: bigint; keyId: string; by: Author },
): Promise<void> {
  const keyId = parseKey(key.keyId)?.keyId ?? key.keyId;
  return inTransaction(pool, async (tx) => {
    const { rowCount } = await tx.query(
      'update api_keys set revoked_at = now() where shop_id = $1 and key_id = $2 and revoked_at is null',
      [key.shopId, keyId],
    );
    if (!rowCount && (await hasKey(tx, key.shopId, keyId))) return;
    if (!rowCount) {
      throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such key');
    }
    const { shopId, by } = key;
    await recordAudit(tx, { shopId, by, action: 'api_key.revoked', subject: keyId });
  });
}

const HAS_ENDED = sql`(revoked_at is not null or coalesce(expires_at <= now(), false))`;

/**
 * The shop's keys, oldest first: all active ones, and of the revoked and expired ones those that ended last.
 *
 * @param ended maximum number of revoked and expired keys.
 */
export function listApiKeys(db: Queryable, shopId: bigint, ended = MAX_ENDED): Promise<ApiKey[]> {
  const shop = param(shopId);
  return selectKeys(
    db,
    sql`
select * from api_keys where shop_id = ${shop} and not ${HAS_ENDED}
union all (
  select * from api_keys where shop_id = ${shop} and ${HAS_ENDED}
   order by least(revoked_at, expires_at) desc, key_id limit ${ended})`,
  );
}

/** One key of the shop, also a revoked one. */
export async function findApiKey(
  db: Queryable,
  shopId: bigint,
  keyId: string,
): Promise<ApiKey | undefined> {
  const one = sql`select * from api_keys where shop_id = ${shopId} and key_id = ${keyId}`;
  return (await selectKeys(db, one))[0];
}

/** Reads keys, oldest first. @param keys SQL that selects rows of `api_keys`. */
async function selectKeys(db: Queryable, keys: Sql): Promise<ApiKey[]> {
  const { rows } = await db.query<ApiKey>(
    unnamed(sql`
     select k.shop_id as "shopId", k.key_id as "keyId", k.sandbox, k.scopes, k.description,
            k.rest_per_minute as "restPerMinute", k.created_at as "createdAt",
            k.last_used_at as "lastUsedAt", k.expires_at as "expiresAt", k.revoked_at as "revokedAt",
            coalesce(k.expires_at <= now(), false) as "hasExpired",
            k.created_by_kind as "createdByKind", k.created_by_id as "createdById", creator.name as "createdByName",
            k.replaced_by as "replacedBy", used.last_operation as "lastOperation"
       from (${keys}) k
       left join users creator on creator.id = (case when k.created_by_kind = 'user' then k.created_by_id::bigint end)
       left join lateral (
         select last_operation from version_usage u
          where u.shop_id = k.shop_id and u.credential_kind = 'api_key' and u.credential_id = k.key_id
          order by u.last_at desc limit 1) used on true
      order by k.created_at, k.key_id`),
  );
  return rows;
}

async function hasKey(tx: Queryable, shopId: bigint, keyId: string): Promise<boolean> {
  const { rowCount } = await tx.query('select 1 from api_keys where shop_id = $1 and key_id = $2', [
    shopId,
    keyId,
  ]);
  return rowCount === 1;
}

/**
 * Checks the number of keys. @throws DomainError RESOURCE_EXHAUSTED when the shop has 100 keys that are neither revoked
 * nor expired.
 */
export async function requireKeyQuota(tx: Queryable, shopId: bigint): Promise<void> {
  const result = await tx.query<{ count: bigint }>(
    `select count(*) from api_keys
     where shop_id = $1 and revoked_at is null and (expires_at is null or expires_at > now())`,
    [shopId],
  );
  if (onlyRow(result).count < MAX_KEYS_PER_SHOP) return;
  throw new DomainError(
    Code.ResourceExhausted,
    ErrorReason.QUOTA_EXCEEDED,
    `a shop has at most ${MAX_KEYS_PER_SHOP} keys: revoke one first`,
  );
}

/** Returns a known scope. @throws DomainError INVALID_ARGUMENT for an unknown scope. */
export function requireScope(text: string): Scope {
  if (isScope(text)) return text;
  throw invalidField('scopes', `must be among ${SCOPES.join(', ')}`);
}

function keyFromText(text: string) {
  const parsed = parseKey(text);
  if (!parsed) throw invalidField('text', 'must be an API key with a valid checksum');
  return { ...parsed, text };
}
