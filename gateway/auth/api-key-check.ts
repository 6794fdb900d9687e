import { timingSafeEqual } from 'node:crypto';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { createBoundedCache } from './bounded-cache.ts';
import type { Caller } from './caller.ts';
import { hashSecret, keyIdIn, parseKey } from './key-format.ts';
import { createKnownKeyIds } from './known-key-ids.ts';
import type { OnRejected, RejectionReason } from './rejection.ts';

/** How long a key is cached. A revocation must be effective in every replica after 5 seconds. Milliseconds. */
const CACHE_MS = 3_000;
const MAX_CACHED = 20_000;

interface StoredKey {
  readonly shopId: bigint;
  /** Whether the shop is a sandbox. */
  readonly sandbox: boolean;
  readonly secretHash: Buffer;
  readonly scopes: readonly string[];
  readonly description: string;
  readonly restPerMinute: number | null;
  readonly isRevoked: boolean;
  /** Compared with the clock of the database. */
  readonly hasExpired: boolean;
}

export interface KeyCheckOptions {
  readonly isBlocked?: boolean;
  readonly onRejected?: OnRejected;
}

export interface ApiKeyCheck {
  /**
   * Returns the caller of a key. Returns undefined when the key is malformed, unknown, revoked or expired, or when it
   * is a live key and its shop is a sandbox, or the reverse.
   *
   * @param o.isBlocked whether the IP address currently gets 429 for failed credentials. If so, ids that do not exist
   *   cost no statement, and a key that was created within the last two seconds may be rejected.
   * @throws when the database is unavailable.
   */
  check(text: string, o?: KeyCheckOptions): Promise<Caller | undefined>;
  clear(): void;
}

/** Checks API keys. @param used called with the id of each valid key; must not block. */
export function createApiKeyCheck(db: Queryable, used: (keyId: string) => void): ApiKeyCheck {
  const cache = createBoundedCache<Promise<StoredKey | undefined>>(MAX_CACHED);
  const ids = createKnownKeyIds(db);

  const lookUp = (keyId: string): Promise<StoredKey | undefined> => {
    const cached = cache.get(keyId);
    if (cached !== undefined) return cached;
    const read = readKey(db, keyId);
    // Cache unknown ids as well, so that guessed keys do not load the database. Do not cache a failed query, so that
    // the next request repeats it.
    cache.set(keyId, read, CACHE_MS);
    read.catch(() => cache.set(keyId, read, 0));
    return read;
  };

  return {
    async check(text, { isBlocked = false, onRejected } = {}) {
      const keyId = keyIdIn(text);
      const reject = (reason: RejectionReason): undefined => {
        onRejected?.({ reason, keyId });
      };
      const parsed = parseKey(text);
      if (!parsed) return reject('malformed');
      const isMadeUp = isBlocked && !cache.get(parsed.keyId) && !(await ids.mayExist(parsed.keyId));
      if (isMadeUp) return reject('unknown key');
      const stored = await lookUp(parsed.keyId);
      const expected = stored?.secretHash ?? NO_HASH;
      const matches = timingSafeEqual(hashSecret(parsed.secret), expected);
      if (!stored) return reject('unknown key');
      if (!matches) return reject('wrong secret');
      if (parsed.sandbox !== stored.sandbox) return reject('other environment');
      if (stored.isRevoked) return reject('revoked');
      if (stored.hasExpired) return reject('expired');
      used(parsed.keyId);
      return {
        shopId: stored.shopId,
        sandbox: stored.sandbox,
        actor: { kind: Actor_Kind.API_KEY, id: parsed.keyId, name: stored.description },
        scopes: stored.scopes,
        limitKey: `key:${parsed.keyId}`,
        restPerMinute: stored.restPerMinute,
        scheme: 'api-key',
      };
    },
    clear: () => cache.clear(),
  };
}

/**
 * The hash of an unknown key's secret. It is compared too, so that the response time does not show whether the key
 * exists.
 */
const NO_HASH = Buffer.alloc(32);

async function readKey(db: Queryable, keyId: string): Promise<StoredKey | undefined> {
  const { rows } = await db.query<StoredKey>(
    `select k.shop_id as "shopId", s.sandbox, k.secret_hash as "secretHash", k.scopes, k.description,
            k.rest_per_minute as "restPerMinute",
            k.revoked_at is not null as "isRevoked", coalesce(k.expires_at <= now(), false) as "hasExpired"
     from api_keys k join shops s on s.id = k.shop_id where k.key_id = $1`,
    [keyId],
  );
  return rows[0];
}
