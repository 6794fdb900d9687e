import {
  type CryptoKey,
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
} from 'jose';
import type pg from 'pg';
import { z } from 'zod';
import type { Keyring } from '../../services/platform/keyring.ts';
import type { Queryable } from '../../services/platform/postgres.ts';

/** Algorithm of every access token. */
export const SIGNING_ALG = 'ES256';

export interface SigningKey {
  readonly kid: string;
  readonly privateJwk: JWK;
}

/** A key whose tokens may still be valid. */
export interface VerifyingKey {
  readonly kid: string;
  readonly publicJwk: JWK;
  readonly key: CryptoKey;
}

export interface OAuthKeys {
  /** The current signing key; created when there is none. Rejects when the database does not answer. */
  signing(): Promise<SigningKey>;
  /** The keys that verify, newest first. Rejects when the database does not answer. */
  verifying(): Promise<readonly VerifyingKey[]>;
  /** The key with this id; undefined when it does not exist or no longer verifies. */
  verifyingKey(kid: string): Promise<VerifyingKey | undefined>;
}

/** Keys are cached for this time, so a replica sees another replica's change after it. Milliseconds. */
const CACHE_MS = 3_000;
/** An unknown key id causes a new read of the database, but at most once in this time. Milliseconds. */
const RELOAD_MIN_MS = 500;
/**
 * A replaced key verifies for the lifetime of an access token (12 hours), plus one hour for replicas that
 * still sign with it. Hours.
 */
const VERIFIES_HOURS = 13;

interface KeySet {
  readonly readAt: number;
  readonly signing: StoredKey | undefined;
  readonly verifying: readonly VerifyingKey[];
}

interface StoredKey {
  readonly kid: string;
  readonly publicJwk: unknown;
  readonly keyId: string;
  readonly encrypted: Uint8Array;
  readonly isReplaced: boolean;
}

/**
 * The service's own signing keys: rows of `oauth_keys`, shared by all replicas. The keyring encrypts the private
 * keys. Each replica caches the keys for a few seconds.
 */
export function createOAuthKeys(pool: pg.Pool, keyring: Keyring): OAuthKeys {
  let known: KeySet | undefined;
  let reading: Promise<KeySet> | undefined;
  let opened: SigningKey | undefined;

  const reload = (): Promise<KeySet> => {
    reading ??= readKeys(pool)
      .then((keys) => {
        known = keys;
        return keys;
      })
      .finally(() => {
        reading = undefined;
      });
    return reading;
  };
  const notOlderThan = async (ms: number): Promise<KeySet> =>
    known && performance.now() - known.readAt < ms ? known : reload();

  const signing = async (): Promise<SigningKey> => {
    const { signing: stored } = await notOlderThan(CACHE_MS);
    if (!stored) {
      await makeKey(pool, keyring);
      known = undefined;
      return signing();
    }
    if (opened?.kid !== stored.kid) {
      const text = keyring.decrypt(stored.keyId, stored.encrypted, contextOf(stored.kid));
      opened = { kid: stored.kid, privateJwk: jwk.parse(JSON.parse(text)) };
    }
    return opened;
  };

  return {
    signing,
    verifying: async () => (await notOlderThan(CACHE_MS)).verifying,
    async verifyingKey(kid) {
      const find = (keys: KeySet) => keys.verifying.find((key) => key.kid === kid);
      return find(await notOlderThan(CACHE_MS)) ?? find(await notOlderThan(RELOAD_MIN_MS));
    },
  };
}

/**
 * Replaces the signing key: the first replica that needs a key creates the new one. Nobody is signed out,
 * because the old keys verify until their last token has expired.
 */
export async function rotateOAuthKey(db: Queryable): Promise<void> {
  await db.query('update oauth_keys set replaced_at = now() where replaced_at is null');
}

/** All stored signing keys, newest first, for operators. */
export async function listOAuthKeys(
  db: Queryable,
): Promise<{ kid: string; createdAt: Date; replacedAt: Date | null }[]> {
  const { rows } = await db.query<{ kid: string; createdAt: Date; replacedAt: Date | null }>(
    `select kid, created_at as "createdAt", replaced_at as "replacedAt"
       from oauth_keys order by created_at desc`,
  );
  return rows;
}

/** Deletes keys that no longer verify. */
export async function purgeOAuthKeys(db: Queryable): Promise<void> {
  await db.query(
    `delete from oauth_keys where replaced_at < now() - ${VERIFIES_HOURS} * interval '1 hour'`,
  );
}

const jwk = z.looseObject({ kty: z.string() });

async function readKeys(db: Queryable): Promise<KeySet> {
  const { rows } = await db.query<StoredKey>(
    `select kid, public_jwk as "publicJwk", key_id as "keyId", sealed as encrypted,
            replaced_at is not null as "isReplaced"
       from oauth_keys
      where replaced_at is null or replaced_at > now() - ${VERIFIES_HOURS} * interval '1 hour'
      order by created_at desc`,
  );
  const verifying = rows.map(async ({ kid, publicJwk: stored }): Promise<VerifyingKey> => {
    const publicJwk = jwk.parse(stored);
    const key = await importJWK(publicJwk, SIGNING_ALG);
    if (key instanceof Uint8Array) throw new Error('a signing key is not a key pair');
    return { kid, publicJwk, key };
  });
  return {
    readAt: performance.now(),
    signing: rows.find((row) => !row.isReplaced),
    verifying: await Promise.all(verifying),
  };
}

/** When several replicas find no key at the same time, one stores its key and the others read it. */
async function makeKey(db: Queryable, keyring: Keyring): Promise<void> {
  const { privateKey, publicKey } = await generateKeyPair(SIGNING_ALG, { extractable: true });
  const [privateJwk, publicJwk] = await Promise.all([exportJWK(privateKey), exportJWK(publicKey)]);
  const kid = await calculateJwkThumbprint(publicJwk);
  const named = { kid, alg: SIGNING_ALG, use: 'sig' };
  const { keyId, encrypted } = keyring.encrypt(
    JSON.stringify({ ...privateJwk, ...named }),
    contextOf(kid),
  );
  await db.query(
    `insert into oauth_keys (kid, public_jwk, key_id, sealed) values ($1, $2, $3, $4)
     on conflict do nothing`,
    [kid, JSON.stringify({ ...publicJwk, ...named }), keyId, encrypted],
  );
}

/** Binds the encrypted key to its row: copied to another row, it cannot be decrypted. */
function contextOf(kid: string): string {
  return `oauth-key:${kid}`;
}
