import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError, stateForbids } from '../../services/platform/values/errors.ts';
import { findApiKey, lockShop, requireRole } from './api-keys.ts';
import { type Author, recordAudit, recordAudits } from './audit.ts';

/** A key that waits, and the owner who decides. */
interface KeyDecision {
  readonly shopId: bigint;
  readonly keyId: string;
  readonly by: Author & { readonly userId: bigint };
}

/**
 * Lets a key that waits for an owner work. Every replica accepts it within 5 seconds. A repeat changes nothing.
 *
 * @throws DomainError PERMISSION_DENIED when the author is no owner at this moment; NOT_FOUND; FAILED_PRECONDITION when
 *   the key has expired or was rejected or revoked, also because its maker was removed.
 */
export function approveApiKey(pool: pg.Pool, o: KeyDecision): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const key = await decidedKey(tx, o);
    if (key.revokedAt) throw stateForbids('the key was rejected or revoked: create another one');
    if (!key.isWaiting) return;
    if (key.hasExpired) throw stateForbids('the key has expired: create another one');
    await tx.query(
      `update api_keys set secret_hash = waiting_secret_hash, waiting_secret_hash = null
        where shop_id = $1 and key_id = $2`,
      [o.shopId, o.keyId],
    );
    await recordAudit(tx, {
      ...{ shopId: o.shopId, by: o.by, action: 'api_key.approved', subject: o.keyId },
      detail: { scopes: key.scopes, user_id: key.createdById },
    });
  });
}

/**
 * Ends a key that waits for an owner. A repeat changes nothing.
 *
 * @throws DomainError as {@link approveApiKey}; FAILED_PRECONDITION when the key does not wait any more.
 */
export function rejectApiKey(pool: pg.Pool, o: KeyDecision): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const key = await decidedKey(tx, o);
    if (key.revokedAt) return;
    if (!key.isWaiting) throw stateForbids('the key does not wait for an owner: revoke it');
    await rejectKeys(tx, o, 'key_id', o.keyId);
  });
}

/** Rejects the keys of a person that wait for an owner, so that nobody approves them without knowing of the removal. */
export async function rejectKeysOf(
  tx: Queryable,
  { shopId, userId }: { readonly shopId: bigint; readonly userId: bigint },
  { by }: { readonly by: Author },
): Promise<void> {
  await rejectKeys(tx, { shopId, by }, 'created_by_id', String(userId));
}

async function rejectKeys(
  tx: Queryable,
  { shopId, by }: { readonly shopId: bigint; readonly by: Author },
  column: 'key_id' | 'created_by_id',
  id: string,
): Promise<void> {
  const { rows } = await tx.query<{ keyId: string; userId: string }>(
    `update api_keys set revoked_at = now()
      where shop_id = $1 and ${column} = $2 and waiting_secret_hash is not null and revoked_at is null
      returning key_id as "keyId", created_by_id as "userId"`,
    [shopId, id],
  );
  const entries = rows.map(({ keyId, userId }) => ({
    ...{ shopId, by, action: 'api_key.rejected', subject: keyId },
    detail: { user_id: userId },
  }));
  if (entries.length > 0) await recordAudits(tx, entries);
}

/** The key that an owner decides about. Other writes of it, removals and changes of roles wait for the transaction. */
async function decidedKey(tx: Queryable, { shopId, keyId, by }: KeyDecision) {
  await lockShop(tx, shopId);
  if ((await requireRole(tx, shopId, by.userId)) !== 'owner') {
    const text = 'only an owner may approve or reject an API key';
    throw new DomainError(Code.PermissionDenied, ErrorReason.UNSPECIFIED, text);
  }
  await tx.query('select from api_keys where shop_id = $1 and key_id = $2 for update', [
    shopId,
    keyId,
  ]);
  const key = await findApiKey(tx, shopId, keyId);
  if (key) return key;
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'the shop has no such key');
}
