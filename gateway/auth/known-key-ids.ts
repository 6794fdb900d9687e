import { createHash } from 'node:crypto';
import type { Queryable } from '../../services/platform/postgres.ts';

/** Which key ids exist, in bounded memory. */
export interface KnownKeyIds {
  /**
   * False when no key of that id existed two seconds ago; true otherwise, and for one id in some hundreds
   * of others when there are a million keys. Rejects when the database does not answer.
   */
  mayExist(keyId: string): Promise<boolean>;
}

/** Two mebibytes: 16 bits for each of a million keys. */
const FILTER_BITS = 2 ** 24;
/** Places of one id in the filter; at a million keys 0.3 % of made-up ids pass. */
const PLACES = 4;
/** What was read is used for so long, below the 5 seconds in which changes hold everywhere. Milliseconds. */
const FRESH_MS = 2_000;
const PAGE = 10_000;
/** A key may commit that long after its `created_at`. */
const COMMIT_LAG = '1 minute';

/**
 * A Bloom filter of the ids of all API keys, read when it is first needed and then followed by what was
 * added. So any number of made-up ids costs one small statement every two seconds.
 */
export function createKnownKeyIds(db: Queryable): KnownKeyIds {
  const bits = new Uint8Array(FILTER_BITS / 8);
  let newest = '-infinity';
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;

  const add = (keyId: string): void => {
    for (const place of placesOf(keyId)) bits[place >> 3] = (bits[place >> 3] ?? 0) | bitOf(place);
  };
  const has = (keyId: string): boolean =>
    placesOf(keyId).every((place) => ((bits[place >> 3] ?? 0) & bitOf(place)) !== 0);
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
  /** As PostgreSQL writes it, since a `Date` would lose the microseconds. */
  readonly createdAt: string;
  readonly keyId: string;
  /** How long before that reading begins; a PostgreSQL interval. */
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

function placesOf(keyId: string): number[] {
  const hash = createHash('sha256').update(keyId).digest();
  return Array.from({ length: PLACES }, (_, at) => hash.readUInt32LE(at * 4) % FILTER_BITS);
}

function bitOf(place: number): number {
  return 1 << (place & 7);
}
