import { createHash } from 'node:crypto';
import type { Queryable } from '../../services/platform/postgres.ts';

/** A probabilistic set of the existing key ids. Its memory is bounded. */
export interface KnownKeyIds {
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
