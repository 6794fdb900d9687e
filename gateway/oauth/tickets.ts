import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { Queryable } from '../../services/platform/postgres.ts';

/** What waits for the one who holds its id. */
export type TicketKind =
  | 'AuthorizationCode'
  | 'RefreshToken'
  | 'Interaction'
  | 'SignIn'
  | 'SignedIn';

export interface Ticket {
  readonly content: unknown;
  /** How long ago it was consumed; null when it was not. Milliseconds, by the database's clock. */
  readonly consumedMsAgo: number | null;
}

/**
 * Rows that only the holder of their id can find and read: the row is known by a hash of the id, and
 * its content is sealed with a key made from it. What lies in the database gives neither back.
 *
 * Ids must be random, 120 bits or more.
 */
export interface Tickets {
  /** Stores or replaces. */
  put(kind: TicketKind, id: string, ticket: NewTicket): Promise<void>;
  /** Undefined when there is none; one that has expired may still be found. */
  find(kind: TicketKind, id: string): Promise<Ticket | undefined>;
  /**
   * Marks it as used, and says whether it could be: it was not used before, or no longer ago than the
   * grace. One statement decides, so of many at once exactly one succeeds where there is no grace.
   *
   * Its first use is also that of all others of its kind and grant: of several, one lives on.
   */
  consume(kind: TicketKind, id: string, graceMs: number): Promise<boolean>;
  /** Removes and answers it: of many at once, one gets it. Undefined when it is gone or has expired. */
  take(kind: TicketKind, id: string): Promise<unknown>;
  remove(kind: TicketKind, id: string): Promise<void>;
  removeOfGrant(kind: TicketKind, grantId: string): Promise<void>;
}

export interface NewTicket {
  readonly content: unknown;
  readonly ttlS: number;
  /** The grant it belongs to and ends with. */
  readonly grantId?: string | undefined;
}

/** How long a used one is remembered, so that a second use is known for what it is. */
const REMEMBERED = "interval '1 day'";

export function createTickets(db: Queryable): Tickets {
  return {
    async put(kind, id, { content, ttlS, grantId }) {
      await db.query(
        `insert into oauth_tickets (kind, id_hash, sealed, grant_id, expires_at)
         values ($1, $2, $3, $4, now() + $5 * interval '1 second')
         on conflict (kind, id_hash) do update
           set sealed = excluded.sealed, grant_id = excluded.grant_id, expires_at = excluded.expires_at`,
        [kind, hashOf(kind, id), seal(kind, id, content), grantId ?? null, ttlS],
      );
    },
    async find(kind, id) {
      const { rows } = await db.query<{ sealed: Buffer; consumedMsAgo: number | null }>(
        `select sealed, (extract(epoch from clock_timestamp() - consumed_at) * 1000)::float8 as "consumedMsAgo"
           from oauth_tickets where kind = $1 and id_hash = $2`,
        [kind, hashOf(kind, id)],
      );
      const [row] = rows;
      return row && { content: open(kind, id, row.sealed), consumedMsAgo: row.consumedMsAgo };
    },
    async consume(kind, id, graceMs) {
      const hash = hashOf(kind, id);
      // Others that are being used at this very moment are left alone: waiting for each other is a deadlock.
      const first = await db.query(
        `with used as (
           update oauth_tickets set consumed_at = clock_timestamp()
            where kind = $1 and id_hash = $2 and expires_at > now() and consumed_at is null
           returning grant_id
         ), ended as (
           update oauth_tickets set consumed_at = clock_timestamp()
            where kind = $1 and id_hash in (
              select t.id_hash from oauth_tickets t join used using (grant_id)
               where t.kind = $1 and t.id_hash <> $2 and t.consumed_at is null
                 for update of t skip locked)
         )
         select from used`,
        [kind, hash],
      );
      if (first.rowCount === 1 || graceMs === 0) return first.rowCount === 1;
      const again = await db.query(
        `select from oauth_tickets
          where kind = $1 and id_hash = $2 and expires_at > now()
            and consumed_at > clock_timestamp() - $3 * interval '1 millisecond'`,
        [kind, hash, graceMs],
      );
      return again.rowCount === 1;
    },
    async take(kind, id) {
      const { rows } = await db.query<{ sealed: Buffer; live: boolean }>(
        `delete from oauth_tickets where kind = $1 and id_hash = $2
         returning sealed, expires_at > now() as live`,
        [kind, hashOf(kind, id)],
      );
      const [row] = rows;
      return row?.live ? open(kind, id, row.sealed) : undefined;
    },
    async remove(kind, id) {
      await db.query('delete from oauth_tickets where kind = $1 and id_hash = $2', [
        kind,
        hashOf(kind, id),
      ]);
    },
    async removeOfGrant(kind, grantId) {
      await db.query('delete from oauth_tickets where grant_id = $1 and kind = $2', [
        grantId,
        kind,
      ]);
    },
  };
}

/** Rows that one statement removes at most, so that none locks for long. */
const BATCH = 1_000;

/** Removes some of what has expired, and says whether there may be more. Safe to run twice. */
export async function purgeTickets(db: Queryable): Promise<boolean> {
  const tickets = await db.query(EXPIRED_TICKETS, [BATCH]);
  const grants = await db.query(EXPIRED_GRANTS, [BATCH]);
  return tickets.rowCount === BATCH || grants.rowCount === BATCH;
}

// The first condition, which is no more than the others say, is the one that the index answers.
const EXPIRED_TICKETS = `
with expired as (
  select kind, id_hash from oauth_tickets
   where expires_at < now() and (consumed_at is null or expires_at < now() - ${REMEMBERED})
   order by expires_at limit $1 for update skip locked)
delete from oauth_tickets t using expired e where t.kind = e.kind and t.id_hash = e.id_hash`;

// Without a ticket nothing new comes of a grant, and its last access token has expired.
const EXPIRED_GRANTS = `
with expired as (
  select g.id from oauth_grants g
   where g.expires_at < now()
      or (g.created_at < now() - interval '13 hours'
          and not exists (select from oauth_tickets t where t.grant_id = g.id))
   limit $1 for update skip locked)
delete from oauth_grants g using expired e where g.id = e.id`;

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

function hashOf(kind: TicketKind, id: string): Buffer {
  return createHash('sha256').update(`${kind}:${id}`).digest();
}

function keyOf(kind: TicketKind, id: string): Buffer {
  return Buffer.from(hkdfSync('sha256', id, '', `ticket:${kind}`, 32));
}

function seal(kind: TicketKind, id: string, content: unknown): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, keyOf(kind, id), nonce);
  const text = Buffer.concat([cipher.update(JSON.stringify(content), 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), text]);
}

function open(kind: TicketKind, id: string, sealed: Buffer): unknown {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, keyOf(kind, id), nonce);
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const text = decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES));
  return JSON.parse(Buffer.concat([text, decipher.final()]).toString('utf8'));
}
