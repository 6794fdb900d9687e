import { createHash, randomBytes } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { isScope, SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { onlyRow } from '../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { param, type Sql, sql, unnamed } from '../../services/platform/postgres/sql.ts';
import { actorKindText } from '../../services/platform/values/actor.ts';
import { DomainError, invalidField } from '../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../services/platform/values/idempotency.ts';
import { roleCovers } from '../actions/scope-rights.ts';
import { hashSecret, newKey, newSecretFor, type ParsedKey, parseKey } from '../auth/key-format.ts';
import { type Author, recordAudit } from './audit.ts';
import type { Role } from './permissions.ts';
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
  /** Whether it waits for an owner. Until one approves it, it is rejected like an unknown key. */
  readonly isWaiting: boolean;
  readonly revokedAt: Date | null;
  readonly createdByKind: string;
  readonly createdById: string;
  /** Name of the user who made the key; null when the user has none, or when no user made it. */
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
  /** Whether it waits for an owner. */
  readonly isWaiting?: boolean;
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
insert into api_keys (shop_id, key_id, secret_hash, waiting_secret_hash, scopes, description, rest_per_minute,
                      expires_at, sandbox, created_by_kind, created_by_id, creation_key, creation_hash)
values (${shopId}, ${keyId}, ${key.isWaiting ? randomBytes(32) : hashSecret(secret)},
        ${key.isWaiting ? hashSecret(secret) : null}, ${[...new Set(scopes)]}, ${key.description},
        ${key.restPerMinute ?? null}, ${key.expiresAt ?? null}, ${sandbox},
        ${kind}, ${by.actor.id}, ${key.creation?.key ?? null}, ${key.creation?.hash ?? null})`),
  );
  const detail = { scopes };
  const action = key.isWaiting ? 'api_key.requested' : 'api_key.created';
  await recordAudit(tx, { shopId, by, action, subject: keyId, detail });
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
            coalesce(k.expires_at <= now(), false) as "hasExpired", k.waiting_secret_hash is not null as "isWaiting",
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

const DAY_MS = 86_400_000;

/** A new key with its text, which is shown once. */
export interface IssuedKey {
  readonly keyId: string;
  readonly text: string;
}

/** A call whose response may get lost. A repeat with the same idempotency key is recognized. */
interface KeyedCall {
  readonly shopId: bigint;
  /** 1 to 200 characters. The client makes one for each key that the user wants. */
  readonly idempotencyKey: string;
  /** With a `userId` it is a member, whose rights limit the key. Without one it is an operator. */
  readonly by: Author & { readonly userId?: bigint };
  /** Called in the transaction that stores the key. Not for a repeat. */
  readonly keyMade?: (tx: Queryable, key: MadeKey) => Promise<void>;
}

/** A key that was made or took the place of another one. */
export interface MadeKey {
  readonly keyId: string;
  readonly description: string;
  readonly scopes: readonly Scope[];
  /** Whether it replaces another key. */
  readonly isRotated: boolean;
  /** Whether it waits for an owner. */
  readonly isWaiting: boolean;
}

/** The role of a member. @throws DomainError PERMISSION_DENIED for others, such as a member who was removed just now. */
export async function requireRole(tx: Queryable, shopId: bigint, userId: bigint): Promise<Role> {
  const { rows } = await tx.query<{ role: Role }>(
    'select role from memberships where shop_id = $1 and user_id = $2',
    [shopId, userId],
  );
  if (rows[0]) return rows[0].role;
  const text = 'you are no longer a member of the shop';
  throw new DomainError(Code.PermissionDenied, ErrorReason.UNSPECIFIED, text);
}

/** Whether a key with these scopes may do more than the member may. The role cannot change while the shop is locked. */
async function isAbove(
  tx: Queryable,
  { shopId, by }: Pick<KeyedCall, 'shopId' | 'by'>,
  scopes: readonly Scope[],
): Promise<boolean> {
  if (by.userId === undefined) return false;
  const role = await requireRole(tx, shopId, by.userId);
  return !scopes.every((scope) => roleCovers(role, scope));
}

/**
 * Creates an API key. If it may do more than the member who makes it, it waits for an owner. A repeat with the same idempotency key returns the same API key with a new secret: the caller did
 * not get the first secret, and nobody stored it. This works for 10 minutes, and only until the API key is used.
 *
 * @throws DomainError as `createApiKey`; ALREADY_EXISTS when the idempotency key was used for another call, or the
 *   repeat is too late.
 */
export function issueApiKey(
  pool: pg.Pool,
  o: KeyedCall & {
    readonly scopes: readonly string[];
    readonly description: string;
    readonly expiresAt?: Date | undefined;
    /** Instead of `expiresAt`: a repeat has the same number of days, and another time. */
    readonly lifetimeDays?: number | undefined;
  },
): Promise<IssuedKey> {
  const scopes = o.scopes.map(requireScope);
  const { shopId, description, lifetimeDays, by } = o;
  const expiresAt =
    lifetimeDays === undefined ? o.expiresAt : new Date(Date.now() + lifetimeDays * DAY_MS);
  const creation = creationOf(o.idempotencyKey, [
    'create',
    [...scopes].sort(),
    description,
    lifetimeDays ?? expiresAt,
  ]);
  return inTransaction(pool, async (tx) => {
    const { sandbox } = await lockShop(tx, shopId);
    const repeated = await repeatOf(tx, shopId, creation);
    if (repeated) return repeated;
    await requireKeyQuota(tx, shopId);
    const created = newKey({ sandbox });
    const isWaiting = await isAbove(tx, o, scopes);
    const row = { shopId, scopes, description, expiresAt, creation, by, isWaiting };
    await insertApiKey(tx, row, created);
    await o.keyMade?.(tx, {
      ...{ keyId: created.keyId, description, scopes },
      ...{ isRotated: false, isWaiting },
    });
    return { keyId: created.keyId, text: created.text };
  });
}

/** The values of the former key that a rotation needs. */
interface FormerKey {
  readonly scopes: readonly Scope[];
  readonly description: string;
  readonly restPerMinute: number | null;
  readonly sandbox: boolean;
  readonly isValid: boolean;
  readonly isWaiting: boolean;
  readonly replacedBy: string | null;
  /** When a new key with the lifetime of the former one expires; null when the former one does not expire. */
  readonly nextExpiry: Date | null;
}

/**
 * Creates a key with the scopes, limit, description and lifetime of a former key. The former key expires after the
 * overlap. Repeats are as in {@link issueApiKey}.
 *
 * @param o.overlapHours how long the former key also works.
 * @throws DomainError NOT_FOUND when the shop has no such key; PERMISSION_DENIED when it may do more than the member, who
 *   would get its secret; FAILED_PRECONDITION when the former key is revoked, expired, already rotated, or waits for an
 *   owner.
 */
export function rotateApiKey(
  pool: pg.Pool,
  o: KeyedCall & { readonly keyId: string; readonly overlapHours: number },
): Promise<IssuedKey> {
  const { shopId, keyId, overlapHours, by } = o;
  const creation = creationOf(o.idempotencyKey, ['rotate', keyId, overlapHours]);
  return inTransaction(pool, async (tx) => {
    await lockShop(tx, shopId);
    const former = await formerKey(tx, shopId, keyId);
    if (await isAbove(tx, o, former.scopes)) throw mayNotRotate();
    const repeated = await repeatOf(tx, shopId, creation);
    if (repeated) return repeated;
    requireRotatable(former);
    await requireKeyQuota(tx, shopId);
    const created = newKey({ sandbox: former.sandbox });
    const { scopes, description, restPerMinute, nextExpiry: expiresAt } = former;
    const row = { shopId, scopes, description, restPerMinute, expiresAt, creation, by };
    await insertApiKey(tx, row, created);
    await tx.query(
      `update api_keys set replaced_by = $3,
              expires_at = least(expires_at, now() + $4 * interval '1 hour')
        where shop_id = $1 and key_id = $2`,
      [shopId, keyId, created.keyId, overlapHours],
    );
    const detail = { replaced_by: created.keyId, overlap_hours: overlapHours };
    await recordAudit(tx, { shopId, by, action: 'api_key.rotated', subject: keyId, detail });
    await o.keyMade?.(tx, {
      ...{ keyId: created.keyId, description, scopes },
      ...{ isRotated: true, isWaiting: false },
    });
    return { keyId: created.keyId, text: created.text };
  });
}

async function formerKey(tx: Queryable, shopId: bigint, keyId: string): Promise<FormerKey> {
  const { rows } = await tx.query<FormerKey>(
    `select scopes, description, rest_per_minute as "restPerMinute", sandbox, replaced_by as "replacedBy",
            revoked_at is null and (expires_at is null or expires_at > now()) as "isValid",
            waiting_secret_hash is not null as "isWaiting",
            now() + (expires_at - created_at) as "nextExpiry"
       from api_keys where shop_id = $1 and key_id = $2`,
    [shopId, keyId],
  );
  const [former] = rows;
  if (former) return former;
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such key');
}

function mayNotRotate(): DomainError {
  const text = 'the key may do more than you: ask a member with its rights to rotate it';
  return new DomainError(Code.PermissionDenied, ErrorReason.UNSPECIFIED, text);
}

function requireRotatable({ isValid, isWaiting, replacedBy }: FormerKey): void {
  const text = !isValid
    ? 'the key is revoked or expired: create another one'
    : isWaiting
      ? 'the key waits for an owner'
      : replacedBy !== null && `the key was rotated already: ${replacedBy} replaces it`;
  if (text) throw new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, text);
}

/**
 * Serializes the key creations of one shop, so that the quota is exact and a repeat sees the first call. Changes of
 * members and roles wait for it, too.
 */
export async function lockShop(tx: Queryable, shopId: bigint) {
  await tx.query('select id from shops where id = $1 for no key update', [shopId]);
  return requireShop(tx, shopId);
}

function creationOf(key: string, content: readonly unknown[]): KeyCreation {
  return { key, hash: createHash('sha256').update(JSON.stringify(content)).digest() };
}

/** A repeat within this time after the first call gets a new secret. */
const REPEATABLE = "interval '10 minutes'";

/**
 * The key that an earlier call created with this idempotency key, with a new secret; undefined when there was no such
 * call.
 */
async function repeatOf(
  tx: Queryable,
  shopId: bigint,
  { key, hash }: KeyCreation,
): Promise<IssuedKey | undefined> {
  const { rows } = await tx.query<{
    keyId: string;
    sandbox: boolean;
    isWaiting: boolean;
    isSame: boolean;
    isRepeatable: boolean;
  }>(
    `select key_id as "keyId", sandbox, waiting_secret_hash is not null as "isWaiting", creation_hash = $3 as "isSame",
            last_used_at is null and revoked_at is null and created_at > now() - ${REPEATABLE} as "isRepeatable"
       from api_keys where shop_id = $1 and creation_key = $2`,
    [shopId, key, hash],
  );
  const [earlier] = rows;
  if (!earlier) return undefined;
  if (!earlier.isSame) throw idempotencyConflict();
  if (!earlier.isRepeatable) {
    const text = `the key ${earlier.keyId} was created already, and its text cannot be shown again: revoke it and create another one`;
    throw new DomainError(Code.AlreadyExists, ErrorReason.IDEMPOTENCY_CONFLICT, text);
  }
  const renewed = newSecretFor(earlier.keyId, earlier);
  const column = earlier.isWaiting ? 'waiting_secret_hash' : 'secret_hash';
  await tx.query(`update api_keys set ${column} = $3 where shop_id = $1 and key_id = $2`, [
    shopId,
    earlier.keyId,
    hashSecret(renewed.secret),
  ]);
  return { keyId: renewed.keyId, text: renewed.text };
}
