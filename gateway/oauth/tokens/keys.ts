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
import type { Queryable } from '../../../services/platform/postgres/postgres.ts';
import type { Keyring } from '../../../services/platform/security/keyring.ts';

/** The tables of signing keys: one for tokens of assistants, one for those of partners' apps. No key is in both. */
export type KeyTable = 'oauth_keys' | 'partner_keys';

const TABLES: readonly KeyTable[] = ['oauth_keys', 'partner_keys'];

/** Algorithm of every access token. */
export const SIGNING_ALG = 'ES256' as const;

export interface SigningKey {
  readonly kid: string;
  readonly privateJwk: JWK;
}

/** A key that verifies tokens, because some of its tokens may still be valid. */
export interface VerifyingKey {
  readonly kid: string;
  readonly publicJwk: JWK;
  readonly key: CryptoKey;
}

export interface OAuthKeys {
  /** Returns the current signing key, and creates one when there is none. Rejects when the database is unavailable. */
  signing(): Promise<SigningKey>;
  /** Returns the keys that verify, newest first. Rejects when the database is unavailable. */
  verifying(): Promise<readonly VerifyingKey[]>;
  /** Returns the key with this id; undefined when it does not exist or no longer verifies. */
  verifyingKey(kid: string): Promise<VerifyingKey | undefined>;
}

/** Maximum age of cached keys. Milliseconds. */
const CACHE_MS = 3_000;
/** An unknown key id makes this process read the database. Minimum time between two such reads. Milliseconds. */
const RELOAD_MIN_MS = 500;
/**
 * How long a replaced key verifies: the lifetime of an access token (12 hours), and one hour for replicas that still
 * sign with this key. Hours.
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
 * Reads the signing keys from a table, which all replicas share, and caches them for a few seconds. The keyring
 * encrypts the private keys in the table.
 */
export function createOAuthKeys(
  pool: pg.Pool,
  keyring: Keyring,
  table: KeyTable = 'oauth_keys',
): OAuthKeys {
  let cached: KeySet | undefined;
  let reading: Promise<KeySet> | undefined;
  let decrypted: SigningKey | undefined;

  const read = (): Promise<KeySet> => {
    reading ??= readKeys(pool, table)
      .then((keys) => {
        cached = keys;
        return keys;
      })
      .finally(() => {
        reading = undefined;
      });
    return reading;
  };
  const keysOfAge = async (maxAgeMs: number): Promise<KeySet> =>
    cached && performance.now() - cached.readAt < maxAgeMs ? cached : read();

  const signing = async (): Promise<SigningKey> => {
    const { signing: stored } = await keysOfAge(CACHE_MS);
    if (!stored) {
      await createKey(pool, keyring, table);
      cached = undefined;
      return signing();
    }
    if (decrypted?.kid !== stored.kid) {
      const text = keyring.decrypt(stored.keyId, stored.encrypted, contextOf(table, stored.kid));
      decrypted = { kid: stored.kid, privateJwk: jwk.parse(JSON.parse(text)) };
    }
    return decrypted;
  };

  return {
    signing,
    verifying: async () => (await keysOfAge(CACHE_MS)).verifying,
    async verifyingKey(kid) {
      const find = (keys: KeySet) => keys.verifying.find((key) => key.kid === kid);
      return find(await keysOfAge(CACHE_MS)) ?? find(await keysOfAge(RELOAD_MIN_MS));
    },
  };
}

/**
 * Marks the signing keys as replaced. The next replica that needs a key creates a new one. No user is signed out,
 * because a replaced key verifies until its last token has expired.
 */
export async function rotateOAuthKey(db: Queryable): Promise<void> {
  for (const table of TABLES) {
    await db.query(`update ${table} set replaced_at = now() where replaced_at is null`);
  }
}

interface ListedKey {
  readonly kid: string;
  /** Whether it signs tokens of partners' apps, and not of assistants. */
  readonly isForPartners: boolean;
  readonly createdAt: Date;
  readonly replacedAt: Date | null;
}

/** Lists all stored signing keys, newest first, for operators. */
export async function listOAuthKeys(db: Queryable): Promise<ListedKey[]> {
  const { rows } = await db.query<ListedKey>(
    `select kid, false as "isForPartners", created_at as "createdAt", replaced_at as "replacedAt" from oauth_keys
     union all
     select kid, true, created_at, replaced_at from partner_keys
      order by "createdAt" desc`,
  );
  return rows;
}

/** Deletes keys that no longer verify. */
export async function purgeOAuthKeys(db: Queryable): Promise<void> {
  for (const table of TABLES) {
    await db.query(
      `delete from ${table} where replaced_at < now() - ${VERIFIES_HOURS} * interval '1 hour'`,
    );
  }
}

const jwk = z.looseObject({ kty: z.string() });

async function readKeys(db: Queryable, table: KeyTable): Promise<KeySet> {
  const { rows } = await db.query<StoredKey>(
    `select kid, public_jwk as "publicJwk", key_id as "keyId", sealed as encrypted,
            replaced_at is not null as "isReplaced"
       from ${table}
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

/**
 * Stores a new key. When several replicas do this at the same time, one succeeds, and the others read the key of that
 * one.
 */
async function createKey(db: Queryable, keyring: Keyring, table: KeyTable): Promise<void> {
  const { privateKey, publicKey } = await generateKeyPair(SIGNING_ALG, { extractable: true });
  const [privateJwk, publicJwk] = await Promise.all([exportJWK(privateKey), exportJWK(publicKey)]);
  const kid = await calculateJwkThumbprint(publicJwk);
  const named = { kid, alg: SIGNING_ALG, use: 'sig' };
  const { keyId, encrypted } = keyring.encrypt(
    JSON.stringify({ ...privateJwk, ...named }),
    contextOf(table, kid),
  );
  await db.query(
    `insert into ${table} (kid, public_jwk, key_id, sealed) values ($1, $2, $3, $4)
     on conflict do nothing`,
    [kid, JSON.stringify({ ...publicJwk, ...named }), keyId, encrypted],
  );
}

/** The context of the encryption. It binds the encrypted key to its row: a copy in another row cannot be decrypted. */
function contextOf(table: KeyTable, kid: string): string {
  return table === 'oauth_keys' ? `oauth-key:${kid}` : `partner-key:${kid}`;
}
