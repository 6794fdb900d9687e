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

/** The key that signs now. */
export interface SigningKey {
  readonly kid: string;
  readonly privateJwk: JWK;
}

/** A key whose tokens may still live. */
export interface VerifyingKey {
  readonly kid: string;
  readonly publicJwk: JWK;
  readonly key: CryptoKey;
}

export interface OAuthKeys {
  /** The key that signs; made and stored where there is none. Rejects when the database does not answer. */
  signing(): Promise<SigningKey>;
  /** The keys that verify, newest first. Rejects when the database does not answer. */
  verifying(): Promise<readonly VerifyingKey[]>;
  /** The key of that id; undefined when it is none of ours, or is past. */
  verifyingKey(kid: string): Promise<VerifyingKey | undefined>;
}

/** How soon a replica notices that keys were changed by another. Milliseconds. */
const KNOWN_MS = 3_000;
/** A token with an unknown key asks the database, but not more often than this. Milliseconds. */
const ASK_AGAIN_MS = 500;
/** A replaced key verifies for the life of an access token, and an hour more for whoever signed late. */
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
  readonly sealed: Uint8Array;
  readonly isReplaced: boolean;
}

/**
 * The service's own signing keys: rows of `oauth_keys`, private halves sealed by the keyring, shared by
 * all replicas. What was read is used for a few seconds.
 */
export function createOAuthKeys(pool: pg.Pool, keyring: Keyring): OAuthKeys {
  let known: KeySet | undefined;
  let reading: Promise<KeySet> | undefined;
  let opened: SigningKey | undefined;

  const readAnew = (): Promise<KeySet> => {
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
    known && performance.now() - known.readAt < ms ? known : readAnew();

  const signing = async (): Promise<SigningKey> => {
    const { signing: stored } = await notOlderThan(KNOWN_MS);
    if (!stored) {
      await makeKey(pool, keyring);
      known = undefined;
      return signing();
    }
    if (opened?.kid !== stored.kid) {
      const text = keyring.open(stored.keyId, stored.sealed, contextOf(stored.kid));
      opened = { kid: stored.kid, privateJwk: jwk.parse(JSON.parse(text)) };
    }
    return opened;
  };

  return {
    signing,
    verifying: async () => (await notOlderThan(KNOWN_MS)).verifying,
    async verifyingKey(kid) {
      const find = (keys: KeySet) => keys.verifying.find((key) => key.kid === kid);
      return find(await notOlderThan(KNOWN_MS)) ?? find(await notOlderThan(ASK_AGAIN_MS));
    },
  };
}

/**
 * Has the next token signed with a fresh key, which the first replica that needs it makes. Nobody is
 * signed out: the keys before it go on verifying until their last token has expired.
 */
export async function rotateOAuthKey(db: Queryable): Promise<void> {
  await db.query('update oauth_keys set replaced_at = now() where replaced_at is null');
}

/** Every signing key that is stored, newest first, for operators. */
export async function listOAuthKeys(
  db: Queryable,
): Promise<{ kid: string; createdAt: Date; replacedAt: Date | null }[]> {
  const { rows } = await db.query<{ kid: string; createdAt: Date; replacedAt: Date | null }>(
    `select kid, created_at as "createdAt", replaced_at as "replacedAt"
       from oauth_keys order by created_at desc`,
  );
  return rows;
}

/** Removes keys that verify nothing any more. */
export async function purgeOAuthKeys(db: Queryable): Promise<void> {
  await db.query(
    `delete from oauth_keys where replaced_at < now() - ${VERIFIES_HOURS} * interval '1 hour'`,
  );
}

const jwk = z.looseObject({ kty: z.string() });

async function readKeys(db: Queryable): Promise<KeySet> {
  const { rows } = await db.query<StoredKey>(
    `select kid, public_jwk as "publicJwk", key_id as "keyId", sealed,
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

/** Of several replicas that find no key at once, one stores its own; the others then read that one. */
async function makeKey(db: Queryable, keyring: Keyring): Promise<void> {
  const { privateKey, publicKey } = await generateKeyPair(SIGNING_ALG, { extractable: true });
  const [privateJwk, publicJwk] = await Promise.all([exportJWK(privateKey), exportJWK(publicKey)]);
  const kid = await calculateJwkThumbprint(publicJwk);
  const named = { kid, alg: SIGNING_ALG, use: 'sig' };
  const { keyId, sealed } = keyring.seal(
    JSON.stringify({ ...privateJwk, ...named }),
    contextOf(kid),
  );
  await db.query(
    `insert into oauth_keys (kid, public_jwk, key_id, sealed) values ($1, $2, $3, $4)
     on conflict do nothing`,
    [kid, JSON.stringify({ ...publicJwk, ...named }), keyId, sealed],
  );
}

/** A sealed key copied to another row cannot be opened there. */
function contextOf(kid: string): string {
  return `oauth-key:${kid}`;
}
