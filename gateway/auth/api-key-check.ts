import { timingSafeEqual } from 'node:crypto';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { createBoundedCache } from './bounded-cache.ts';
import type { Caller } from './caller.ts';
import { hashSecret, keyIdIn, parseKey } from './key-format.ts';
import { createKnownKeyIds } from './known-key-ids.ts';
import type { OnRefused, RefusalReason } from './refusal.ts';

/** Less than the 5 seconds after which a revocation must be effective in every replica. Milliseconds. */
const KNOWN_MS = 3_000;
const MAX_REMEMBERED = 20_000;

interface StoredKey {
  readonly shopId: bigint;
  readonly secretHash: Buffer;
  readonly scopes: readonly string[];
  readonly description: string;
  readonly restPerMinute: number | null;
  readonly isRevoked: boolean;
  /** By the database's clock. */
  readonly hasExpired: boolean;
}

export interface KeyCheckOptions {
  readonly isBlocked?: boolean;
  readonly onRefused?: OnRefused;
}

export interface ApiKeyCheck {
  /**
   * Returns the caller of a key; undefined when the key is malformed, unknown, revoked or expired.
   * Rejects when the database does not answer.
   *
   * @param o.isBlocked whether the IP address currently gets 429 for failed credentials. Then no statement is
   *   executed for an id that does not exist, and a key created within the last two seconds may be rejected.
   */
  check(text: string, o?: KeyCheckOptions): Promise<Caller | undefined>;
  clear(): void;
}

/** Checks API keys. @param used is called with the id of each valid key; it must return at once. */
export function createApiKeyCheck(db: Queryable, used: (keyId: string) => void): ApiKeyCheck {
  const remembered = createBoundedCache<Promise<StoredKey | undefined>>(MAX_REMEMBERED);
  const ids = createKnownKeyIds(db);

  const lookUp = (keyId: string): Promise<StoredKey | undefined> => {
    const known = remembered.get(keyId);
    if (known !== undefined) return known;
    const asked = readKey(db, keyId);
    // Unknown ids are cached as well, so that guessing keys does not load the database. A failed query is not
    // cached, so the next request repeats it.
    remembered.set(keyId, asked, KNOWN_MS);
    asked.catch(() => remembered.set(keyId, asked, 0));
    return asked;
  };

  return {
    async check(text, { isBlocked = false, onRefused } = {}) {
      const keyId = keyIdIn(text);
      const refuse = (reason: RefusalReason): undefined => {
        onRefused?.({ reason, keyId });
      };
      const parsed = parseKey(text);
      if (!parsed) return refuse('malformed');
      const isMadeUp =
        isBlocked && !remembered.get(parsed.keyId) && !(await ids.mayExist(parsed.keyId));
      if (isMadeUp) return refuse('unknown key');
      const stored = await lookUp(parsed.keyId);
      const expected = stored?.secretHash ?? NO_HASH;
      const matches = timingSafeEqual(hashSecret(parsed.secret), expected);
      if (!stored) return refuse('unknown key');
      if (!matches) return refuse('wrong secret');
      if (stored.isRevoked) return refuse('revoked');
      if (stored.hasExpired) return refuse('expired');
      used(parsed.keyId);
      return {
        shopId: stored.shopId,
        actor: { kind: Actor_Kind.API_KEY, id: parsed.keyId, name: stored.description },
        scopes: stored.scopes,
        limitKey: `key:${parsed.keyId}`,
        restPerMinute: stored.restPerMinute,
        scheme: 'api-key',
      };
    },
    clear: () => remembered.clear(),
  };
}

/** Compared with the secret of an unknown key, so that the response time does not show whether the key exists. */
const NO_HASH = Buffer.alloc(32);

async function readKey(db: Queryable, keyId: string): Promise<StoredKey | undefined> {
  const { rows } = await db.query<StoredKey>(
    `select shop_id as "shopId", secret_hash as "secretHash", scopes, description,
            rest_per_minute as "restPerMinute",
            revoked_at is not null as "isRevoked", coalesce(expires_at <= now(), false) as "hasExpired"
     from api_keys where key_id = $1`,
    [keyId],
  );
  return rows[0];
}
