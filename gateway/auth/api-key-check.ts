import { createHash, timingSafeEqual } from 'node:crypto';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { createBoundedCache } from './bounded-cache.ts';
import type { Caller } from './caller.ts';
import { hashSecret, keyIdIn, parseKey } from './key-format.ts';
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
  readonly isWaiting: boolean;
}

interface KeyCheckOptions {
  readonly isBlocked?: boolean;
  readonly onRejected?: OnRejected;
}

export interface ApiKeyCheck {
  /**
   * Returns the caller of a key. Returns undefined when the key is malformed, unknown, revoked or expired, when it
   * waits for an owner, or when it is a live key and its shop is a sandbox, or the reverse.
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
      if (stored.isWaiting) return reject('waits for an owner');
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
    `select k.shop_id as "shopId", s.sandbox, coalesce(k.waiting_secret_hash, k.secret_hash) as "secretHash",
            k.waiting_secret_hash is not null as "isWaiting", k.scopes, k.description, k.rest_per_minute as "restPerMinute",
            k.revoked_at is not null as "isRevoked", coalesce(k.expires_at <= now(), false) as "hasExpired"
     from api_keys k join shops s on s.id = k.shop_id where k.key_id = $1`,
    [keyId],
  );
  return rows[0];
}

/** A probabilistic set of the existing key ids. Its memory is bounded. */
interface KnownKeyIds {
  /**
   * False when no key had this id two seconds ago. True for every existing key, and for a few ids that do not exist
   * (about 0.3 % when there are a million keys). Throws when the database is unavailable.
   */
  mayExist(keyId: string): Promise<boolean>;
}

/** Size of the Bloom filter: 2 MiB, which is 16 bits for each of a million keys. */
const FILTER_BITS = 2 ** 24;
/** Number of bits that an id sets in the filter. With a million keys, 0.3 % of invented ids look like existing ones. */
const BITS_PER_ID = 4;
/** Update interval of the filter. A new key must work after 5 seconds at most. Milliseconds. */
const FRESH_MS = 2_000;
const PAGE = 10_000;
/** Maximum time from a key's `created_at` to the commit of its row. */
const COMMIT_LAG = '1 minute';

/**
 * Creates a Bloom filter with the ids of all API keys. The first use reads all keys, and later uses read only new keys.
 * So any number of invented ids costs one small statement every two seconds.
 */
export function createKnownKeyIds(db: Queryable): KnownKeyIds {
  const bits = new Uint8Array(FILTER_BITS / 8);
  let newest = '-infinity';
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;

  const add = (keyId: string): void => {
    for (const bit of bitsOf(keyId)) bits[bit >> 3] = (bits[bit >> 3] ?? 0) | maskOf(bit);
  };
  const has = (keyId: string): boolean =>
    bitsOf(keyId).every((bit) => ((bits[bit >> 3] ?? 0) & maskOf(bit)) !== 0);
  const read = async (): Promise<void> => {
    const startedAt = performance.now();
    let after: Cursor = { createdAt: newest, keyId: '', overlap: COMMIT_LAG };
    for (let isLast = false; !isLast; ) {
      const page = await readPage(db, after);
      for (const { keyId } of page) add(keyId);
      const last = page.at(-1);
      if (last) after = { ...last, overlap: '0' };
      isLast = page.length < PAGE;
    }
    newest = after.createdAt;
    readAt = startedAt;
  };

  return {
    async mayExist(keyId) {
      if (performance.now() - readAt > FRESH_MS) {
        reading ??= read().finally(() => {
          reading = undefined;
        });
        await reading;
      }
      return has(keyId);
    },
  };
}

interface Cursor {
  /** The time in PostgreSQL's text form, because a `Date` would lose the microseconds. */
  readonly createdAt: string;
  readonly keyId: string;
  /** The read begins this long before `createdAt`; a PostgreSQL interval. */
  readonly overlap: string;
}

async function readPage(db: Queryable, after: Cursor): Promise<readonly Omit<Cursor, 'overlap'>[]> {
  const { rows } = await db.query<Omit<Cursor, 'overlap'>>(
    `select created_at::text as "createdAt", key_id as "keyId" from api_keys
      where (created_at, key_id) > ($1::timestamptz - $2::interval, $3)
      order by created_at, key_id limit $4`,
    [after.createdAt, after.overlap, after.keyId, PAGE],
  );
  return rows;
}

function bitsOf(keyId: string): number[] {
  const hash = createHash('sha256').update(keyId).digest();
  return Array.from({ length: BITS_PER_ID }, (_, at) => hash.readUInt32LE(at * 4) % FILTER_BITS);
}

function maskOf(bit: number): number {
  return 1 << (bit & 7);
}
