import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { Queryable } from '../../../services/platform/postgres/postgres.ts';

/** The kinds of one-time records. */
export type OneTimeRecordKind =
  | 'AuthorizationCode'
  | 'RefreshToken'
  | 'Interaction'
  | 'SignIn'
  | 'SignedIn'
  | 'PortalSignIn'
  | 'OpenInvitation'
  | 'SelfName';

export interface OneTimeRecord {
  readonly content: unknown;
  /**
   * Time since the first use, by the clock of the database; null when the record was not used. Negative when that clock
   * was set back since. Milliseconds.
   */
  readonly consumedMsAgo: number | null;
  readonly hasExpired: boolean;
}

/** The tables of one-time records: one for assistants and the portal, one for partners' apps. */
export type OneTimeTable = 'oauth_tickets' | 'partner_tickets';

/**
 * Rows that only the holder of their id can find and read. A row contains a hash of the id, and its
 * content is encrypted with a key derived from the id.
 *
 * Ids must be random, with at least 120 bits, except for `SelfName`, whose content is public.
 */
export interface OneTimeRecords {
  /** Stores the record. Replaces a record with the same id. */
  put(kind: OneTimeRecordKind, id: string, record: NewOneTimeRecord): Promise<void>;
  /** Undefined when the record does not exist. An expired record may still be found. */
  find(kind: OneTimeRecordKind, id: string): Promise<OneTimeRecord | undefined>;
  /**
   * Marks the record as used. Its first use also marks all other records of the same kind and grant. Returns true for
   * the first use, and during the grace period after it. Of many concurrent calls, exactly one is the first use.
   */
  consume(kind: OneTimeRecordKind, id: string, graceMs: number): Promise<boolean>;
  /**
   * Deletes the record and returns its content. Of many concurrent calls, one gets the content. Undefined when the
   * record does not exist or has expired.
   */
  take(kind: OneTimeRecordKind, id: string): Promise<unknown>;
  remove(kind: OneTimeRecordKind, id: string): Promise<void>;
  removeOfGrant(kind: OneTimeRecordKind, grantId: string): Promise<void>;
}

export interface NewOneTimeRecord {
  readonly content: unknown;
  readonly ttlS: number;
  /** The grant that the record belongs to. When the grant ends, the record is deleted. */
  readonly grantId?: string | undefined;
}

/** Time for which a used record is stored after its expiry, so that a reuse is detected. */
const USED_KEPT = "interval '1 day'";

// `skip locked` skips records that another call is using. Waiting for them could deadlock.
const consumeWithGrant = (table: OneTimeTable) => `
with used as (
  update ${table} set consumed_at = clock_timestamp()
   where kind = $1 and id_hash = $2 and expires_at > now() and consumed_at is null
  returning grant_id
), ended as (
  update ${table} set consumed_at = clock_timestamp()
   where kind = $1 and id_hash in (
     select t.id_hash from ${table} t join used using (grant_id)
      where t.kind = $1 and t.id_hash <> $2 and t.consumed_at is null
        for update of t skip locked)
)
select from used`;

export function createOneTimeRecords(
  db: Queryable,
  table: OneTimeTable = 'oauth_tickets',
): OneTimeRecords {
  const consumeStatement = consumeWithGrant(table);
  return {
    async put(kind, id, { content, ttlS, grantId }) {
      await db.query(
        `insert into ${table} (kind, id_hash, sealed, grant_id, expires_at)
         values ($1, $2, $3, $4, now() + $5 * interval '1 second')
         on conflict (kind, id_hash) do update
           set sealed = excluded.sealed, grant_id = excluded.grant_id, expires_at = excluded.expires_at`,
        [kind, hashOf(kind, id), encrypt(kind, id, content), grantId ?? null, ttlS],
      );
    },
    async find(kind, id) {
      const { rows } = await db.query<Omit<OneTimeRecord, 'content'> & { encrypted: Buffer }>(
        `select sealed as encrypted, expires_at <= now() as "hasExpired",
                (extract(epoch from clock_timestamp() - consumed_at) * 1000)::float8 as "consumedMsAgo"
           from ${table} where kind = $1 and id_hash = $2`,
        [kind, hashOf(kind, id)],
      );
      const [row] = rows;
      if (!row) return undefined;
      const { encrypted, ...rest } = row;
      return { ...rest, content: decrypt(kind, id, encrypted) };
    },
    async consume(kind, id, graceMs) {
      const hash = hashOf(kind, id);
      const first = await db.query(consumeStatement, [kind, hash]);
      if (first.rowCount === 1 || graceMs === 0) return first.rowCount === 1;
      const again = await db.query(
        `select from ${table}
          where kind = $1 and id_hash = $2 and expires_at > now()
            and consumed_at > clock_timestamp() - $3 * interval '1 millisecond'
            and consumed_at < clock_timestamp() + $3 * interval '1 millisecond'`,
        [kind, hash, graceMs],
      );
      return again.rowCount === 1;
    },
    async take(kind, id) {
      const { rows } = await db.query<{ encrypted: Buffer; live: boolean }>(
        `delete from ${table} where kind = $1 and id_hash = $2
         returning sealed as encrypted, expires_at > now() as live`,
        [kind, hashOf(kind, id)],
      );
      const [row] = rows;
      return row?.live ? decrypt(kind, id, row.encrypted) : undefined;
    },
    async remove(kind, id) {
      await db.query(`delete from ${table} where kind = $1 and id_hash = $2`, [
        kind,
        hashOf(kind, id),
      ]);
    },
    async removeOfGrant(kind, grantId) {
      await db.query(`delete from ${table} where grant_id = $1 and kind = $2`, [grantId, kind]);
    },
  };
}

/** Maximum number of rows that one statement deletes, so that it does not hold locks for long. */
const BATCH = 1_000;

/** Deletes a batch of expired records and grants. Returns whether there may be more. Safe to run twice. */
export async function purgeOneTimeRecords(db: Queryable): Promise<boolean> {
  let isMore = false;
  for (const statement of PURGES) {
    const { rowCount } = await db.query(statement, [BATCH]);
    isMore ||= rowCount === BATCH;
  }
  return isMore;
}

// Deletes unused records after their expiry, and used records a day later. `expires_at < now()` is true for both, so
// that the index on `expires_at` finds them.
const deleteExpiredRecords = (table: OneTimeTable) => `
with expired as (
  select kind, id_hash from ${table}
   where expires_at < now() and (consumed_at is null or expires_at < now() - ${USED_KEPT})
   order by expires_at limit $1 for update skip locked)
delete from ${table} t using expired e where t.kind = e.kind and t.id_hash = e.id_hash`;

// Also deletes grants without a record that are older than an access token can be. Such a grant cannot issue a new token,
// and its last access token has expired.
const deleteExpiredGrants = (grants: string, table: OneTimeTable, hours: number) => `
with expired as (
  select g.id from ${grants} g
   where g.expires_at < now()
      or (g.created_at < now() - interval '${hours} hours'
          and not exists (select from ${table} t where t.grant_id = g.id))
   limit $1 for update skip locked)
delete from ${grants} g using expired e where g.id = e.id`;

/** Access tokens of assistants are valid for 12 hours, those of partners' apps for one. */
const PURGES: readonly string[] = [
  deleteExpiredRecords('oauth_tickets'),
  deleteExpiredRecords('partner_tickets'),
  deleteExpiredGrants('oauth_grants', 'oauth_tickets', 13),
  deleteExpiredGrants('partner_grants', 'partner_tickets', 2),
];

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

function hashOf(kind: OneTimeRecordKind, id: string): Buffer {
  return createHash('sha256').update(`${kind}:${id}`).digest();
}

/**
 * Derives the encryption key from the record's id. The text `ticket:` must not change, because the stored records are
 * encrypted with it.
 */
function keyOf(kind: OneTimeRecordKind, id: string): Buffer {
  return Buffer.from(hkdfSync('sha256', id, '', `ticket:${kind}`, 32));
}

function encrypt(kind: OneTimeRecordKind, id: string, content: unknown): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, keyOf(kind, id), nonce);
  const text = Buffer.concat([cipher.update(JSON.stringify(content), 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), text]);
}

function decrypt(kind: OneTimeRecordKind, id: string, encrypted: Buffer): unknown {
  const nonce = encrypted.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, keyOf(kind, id), nonce);
  decipher.setAuthTag(encrypted.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const text = decipher.update(encrypted.subarray(NONCE_BYTES + TAG_BYTES));
  return JSON.parse(Buffer.concat([text, decipher.final()]).toString('utf8'));
}
