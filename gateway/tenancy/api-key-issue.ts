import { createHash } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Scope } from '../../services/contract/scopes.ts';
import { DomainError } from '../../services/platform/errors.ts';
import { idempotencyConflict } from '../../services/platform/idempotency.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres.ts';
import { hashSecret, newKey, newSecretFor } from '../auth/key-format.ts';
import { insertApiKey, type KeyCreation, requireKeyQuota, requireScope } from './api-keys.ts';
import { type Author, recordAudit } from './audit.ts';
import { requireShop } from './shops.ts';

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
  readonly by: Author;
}

/**
 * Creates an API key. A repeat with the same idempotency key returns the same API key with a new secret: the caller did
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
    await insertApiKey(tx, { shopId, scopes, description, expiresAt, creation, by }, created);
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
  readonly replacedBy: string | null;
  /** When a new key with the lifetime of the former one expires; null when the former one does not expire. */
  readonly nextExpiry: Date | null;
}

/**
 * Creates a key with the scopes, limit, description and lifetime of a former key. The former key expires after the
 * overlap. Repeats are as in {@link issueApiKey}.
 *
 * @param o.overlapHours how long the former key also works.
 * @throws DomainError NOT_FOUND when the shop has no such key; FAILED_PRECONDITION when the former key is revoked,
 *   expired or already rotated.
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
    return { keyId: created.keyId, text: created.text };
  });
}

async function formerKey(tx: Queryable, shopId: bigint, keyId: string): Promise<FormerKey> {
  const { rows } = await tx.query<FormerKey>(
    `select scopes, description, rest_per_minute as "restPerMinute", sandbox, replaced_by as "replacedBy",
            revoked_at is null and (expires_at is null or expires_at > now()) as "isValid",
            now() + (expires_at - created_at) as "nextExpiry"
       from api_keys where shop_id = $1 and key_id = $2`,
    [shopId, keyId],
  );
  const [former] = rows;
  if (former) return former;
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such key');
}

function requireRotatable({ isValid, replacedBy }: FormerKey): void {
  const text = !isValid
    ? 'the key is revoked or expired: create another one'
    : replacedBy !== null && `the key was rotated already: ${replacedBy} replaces it`;
  if (text) throw new DomainError(Code.FailedPrecondition, ErrorReason.STATE_FORBIDS, text);
}

/** Serializes the key creations of one shop, so that the quota is exact and a repeat sees the first call. */
async function lockShop(tx: Queryable, shopId: bigint) {
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
    isSame: boolean;
    isRepeatable: boolean;
  }>(
    `select key_id as "keyId", sandbox, creation_hash = $3 as "isSame",
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
  await tx.query('update api_keys set secret_hash = $3 where shop_id = $1 and key_id = $2', [
    shopId,
    earlier.keyId,
    hashSecret(renewed.secret),
  ]);
  return { keyId: renewed.keyId, text: renewed.text };
}
