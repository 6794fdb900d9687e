import type { Keyring } from '../../platform/keyring.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { newSecret } from '../sender/signature.ts';

/** A valid signing secret. */
export interface Secret {
  readonly id: bigint;
  readonly value: string;
  readonly createdAt: Date;
  /** When the secret stops signing; null for the newest secret. */
  readonly expiresAt: Date | null;
}

export interface Owner {
  readonly shopId: bigint;
  readonly subscriptionId: bigint;
}

/** Maximum number of valid secrets. Each signs every delivery, and receivers limit the length of headers. */
const MAX_SECRETS = 10;

/** Creates and stores a new secret of a subscription. */
export async function addSecret(tx: Queryable, owner: Owner, keyring: Keyring): Promise<Secret> {
  const value = newSecret();
  const { keyId, encrypted } = keyring.encrypt(value, contextOf(owner));
  const { rows } = await tx.query<{ id: bigint; createdAt: Date }>(
    `insert into secrets (shop_id, subscription_id, key_id, sealed) values ($1, $2, $3, $4)
     returning id, created_at as "createdAt"`,
    [owner.shopId, owner.subscriptionId, keyId, encrypted],
  );
  const [row] = rows;
  if (!row) throw new Error('a secret was not stored');
  return { ...row, value, expiresAt: null };
}

/**
 * Creates a new secret. Earlier secrets sign until the overlap ends or they expire. After many rotations within the
 * overlap, only the last ten secrets sign.
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

/** Returns the valid secrets, newest first. */
export async function secretsOf(db: Queryable, owner: Owner, keyring: Keyring): Promise<Secret[]> {
  const { rows } = await db.query<{
    id: bigint;
    keyId: string;
    encrypted: Uint8Array;
    createdAt: Date;
    expiresAt: Date | null;
  }>(
    `select id, key_id as "keyId", sealed as encrypted, created_at as "createdAt", expires_at as "expiresAt"
       from secrets
      where shop_id = $1 and subscription_id = $2 and (expires_at is null or expires_at > now())
      order by id desc`,
    [owner.shopId, owner.subscriptionId],
  );
  return rows.map(({ keyId, encrypted, ...row }) => ({
    ...row,
    value: keyring.decrypt(keyId, encrypted, contextOf(owner)),
  }));
}

/**
 * Returns the secret that an earlier call with the same idempotency key created: the secret with this id, or without an
 * id the first secret of the subscription. If that secret is no longer valid, returns the newest one.
 */
export async function earlierSecret(
  db: Queryable,
  owner: Owner,
  o: { readonly keyring: Keyring; readonly id?: bigint },
): Promise<Secret> {
  const valid = await secretsOf(db, owner, o.keyring);
  const found = o.id === undefined ? valid.at(-1) : valid.find(({ id }) => id === o.id);
  const secret = found ?? valid[0];
  if (!secret) throw new Error('a subscription has no secret');
  return secret;
}

/** Binds a secret to its subscription: a copy in the row of another subscription cannot be decrypted. */
export function contextOf(owner: Owner): string {
  return `${owner.shopId}:${owner.subscriptionId}`;
}
