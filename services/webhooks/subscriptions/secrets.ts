import type { Keyring } from '../../platform/keyring.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { newSecret } from '../sender/signature.ts';

/** A signing secret in force. */
export interface Secret {
  readonly value: string;
  readonly createdAt: Date;
  /** When it stops signing; null for the newest. */
  readonly expiresAt: Date | null;
}

export interface Owner {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
}

/** In force at once: each signs every delivery, and receivers limit the length of headers. */
const MAX_SECRETS = 10;

/** Makes and stores a subscription's new secret. */
export async function addSecret(tx: Queryable, owner: Owner, keyring: Keyring): Promise<Secret> {
  const value = newSecret();
  const { keyId, sealed } = keyring.seal(value, contextOf(owner));
  const { rows } = await tx.query<{ createdAt: Date }>(
    `insert into secrets (shop_id, subscription_id, key_id, sealed) values ($1, $2, $3, $4)
     returning created_at as "createdAt"`,
    [owner.shopId, owner.subscriptionId, keyId, sealed],
  );
  return { value, createdAt: rows[0]?.createdAt ?? new Date(), expiresAt: null };
}

/**
 * Makes a new secret; the ones before it go on signing for the overlap, and not longer than they
 * were going to. Of many rotations within the overlap, only the last ten secrets sign.
 */
export async function rotateSecret(
  tx: Queryable,
  owner: Owner,
  o: { keyring: Keyring; overlapHours: number },
): Promise<Secret> {
  await tx.query(
    `update secrets set expires_at = least(expires_at, now() + $3 * interval '1 hour')
      where shop_id = $1 and subscription_id = $2`,
    [owner.shopId, owner.subscriptionId, o.overlapHours],
  );
  await tx.query(
    `delete from secrets
      where shop_id = $1 and subscription_id = $2 and (expires_at <= now() or id not in (
        select id from secrets where shop_id = $1 and subscription_id = $2 order by id desc limit $3))`,
    [owner.shopId, owner.subscriptionId, MAX_SECRETS - 1],
  );
  return addSecret(tx, owner, o.keyring);
}

/** The secrets in force, newest first. */
export async function secretsOf(db: Queryable, owner: Owner, keyring: Keyring): Promise<Secret[]> {
  const { rows } = await db.query<{
    keyId: string;
    sealed: Uint8Array;
    createdAt: Date;
    expiresAt: Date | null;
  }>(
    `select key_id as "keyId", sealed, created_at as "createdAt", expires_at as "expiresAt"
       from secrets
      where shop_id = $1 and subscription_id = $2 and (expires_at is null or expires_at > now())
      order by id desc`,
    [owner.shopId, owner.subscriptionId],
  );
  return rows.map(({ keyId, sealed, createdAt, expiresAt }) => ({
    value: keyring.open(keyId, sealed, contextOf(owner)),
    createdAt,
    expiresAt,
  }));
}

/** A row copied to another subscription cannot be opened there. */
export function contextOf(owner: Owner): string {
  return `${owner.shopId}:${owner.subscriptionId}`;
}
