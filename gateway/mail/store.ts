import { z } from 'zod';
import { createJobLease } from '../../services/platform/leases/leases.ts';
import { onlyRow } from '../../services/platform/postgres/only-row.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { raw, sql } from '../../services/platform/postgres/sql.ts';
import { type Fact, factShape } from './facts.ts';
import { declarationShape, type StoredDeclaration } from './shopper-mails.ts';

/** A mail that this process works on. */
export interface Mail {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly token: bigint;
  /** The recipient; null for a mail to somebody who is no member. */
  readonly userId: bigint | null;
  readonly invitationId: bigint | null;
  /** Of the mail to a shopper. Null for other mails, and when this release cannot read it. */
  readonly declaration: StoredDeclaration | null;
  /** All of one kind. Empty for an invitation, and when this release cannot read them, because a newer one wrote them. */
  readonly facts: readonly Fact[];
  /** Tries that ended without a result. */
  readonly attempts: number;
  /** Whether a process that died, or lost the lease, has given the content to a server. */
  readonly wasHandedOver: boolean;
}

/**
 * How a mail ended. `unknown`: a server may have it. `dropped`: the recipient is no longer a member of the shop, or nobody
 * could accept the invitation any more.
 */
export type Ending = 'sent' | 'failed' | 'unknown' | 'dropped';

/**
 * Length of the lease of a mail. It is longer than {@link SEND_MS} and the statements before and after it.
 * Milliseconds.
 */
export const LEASE_MS = 180_000;
const MAX_ERROR = 500;

const lease = createJobLease<Mail>({
  table: 'mails',
  key: { shop_id: ({ shopId }) => shopId, id: ({ id }) => id },
  dueAt: 'due_at',
  leaseMs: LEASE_MS,
  tokens: 'mail_tokens',
  isOpen: sql`ended is null`,
  due: (limit) => sql`
    select shop_id, id from mails where ended is null and due_at <= clock_timestamp()
     order by due_at limit ${limit} for update skip locked`,
  onClaim: raw('is_gathering = false'),
  returning: raw(`job.shop_id as "shopId", job.id, job.user_id as "userId",
    job.invitation_id as "invitationId", job.declaration, job.facts, job.attempts,
    job.handed_over_at is not null as "wasHandedOver"`),
});

const storedFacts = z.array(factShape);

/** Takes up to `limit` due mails. */
export async function claimMails(db: Queryable, limit: number): Promise<Mail[]> {
  type Row = Omit<Mail, 'facts' | 'declaration' | 'token'> & {
    facts: unknown;
    declaration: unknown;
  };
  const rows = await lease.claim<Row>(db, limit);
  return rows.map((row) => ({
    ...row,
    facts: storedFacts.safeParse(row.facts).data ?? [],
    declaration: declarationShape.safeParse(row.declaration).data ?? null,
  }));
}

/** Notes that a server begins to take the content. False when another process works on the mail. */
export function noteHandedOver(db: Queryable, mail: Mail): Promise<boolean> {
  const set = raw('handed_over_at = now()');
  return lease.tryWrite(db, mail, { name: 'mails-handed-over', set });
}

/** Ends a mail. False when another process works on it. */
export function endMail(
  db: Queryable,
  mail: Mail,
  o: { readonly as: Ending; readonly error?: string },
): Promise<boolean> {
  const set = sql`ended = ${o.as}, ended_at = now(), error = ${shortened(o.error)}, lease_token = null`;
  return lease.tryWrite(db, mail, { name: 'mails-end', set });
}

/** Puts a mail off that no server has taken. False when another process works on it. */
export function retryMail(
  db: Queryable,
  mail: Mail,
  o: { readonly pauseMs: number; readonly error: string },
): Promise<boolean> {
  const set = sql`attempts = attempts + 1, handed_over_at = null, error = ${shortened(o.error)}, lease_token = null,
    due_at = now() + ${o.pauseMs} * interval '1 ms'`;
  return lease.tryWrite(db, mail, { name: 'mails-retry', set });
}

function shortened(error = ''): string {
  return [...error.replaceAll('\0', '\ufffd')].slice(0, MAX_ERROR).join('');
}

/** The recipient of a mail and the shop that it is about. */
export interface Recipient {
  readonly email: string;
  readonly shopName: string;
}

/** Undefined when the recipient is no longer a member of the shop. */
export async function recipientOf(
  db: Queryable,
  { shopId, userId }: Pick<Mail, 'shopId' | 'userId'>,
): Promise<Recipient | undefined> {
  const { rows } = await db.query<Recipient>(
    `select u.email, s.name as "shopName"
       from memberships m join users u on u.id = m.user_id join shops s on s.id = m.shop_id
      where m.shop_id = $1 and m.user_id = $2`,
    [shopId, userId],
  );
  return rows[0];
}

/** The name of a shop. */
export async function shopNameOf(db: Queryable, shopId: bigint): Promise<string> {
  const found = await db.query<{ name: string }>('select name from shops where id = $1', [shopId]);
  return onlyRow(found).name;
}

/** The address of a user, who may have left every shop; undefined when there is no such user. */
export async function emailOf(db: Queryable, userId: string): Promise<string | undefined> {
  if (!/^\d{1,16}$/.test(userId)) return undefined;
  const { rows } = await db.query<{ email: string }>('select email from users where id = $1', [
    userId,
  ]);
  return rows[0]?.email;
}

/**
 * The age of the oldest mail that has not ended. Seconds; 0 without one. `due_at` says nothing about it, because each try
 * moves `due_at` ahead.
 */
export async function oldestOpenSeconds(db: Queryable): Promise<number> {
  const result = await db.query<{ seconds: number | null }>(
    `select extract(epoch from now() - min(created_at))::float8 as seconds
       from mails where ended is null`,
  );
  return onlyRow(result).seconds ?? 0;
}

/** How long ended mails are kept, for questions of members. Days. */
const KEPT_DAYS = 30;
const BATCH = 1_000;

/** Deletes old mails, and days that no longer suppress anything. Returns true when there may be more. */
export async function purgeMails(db: Queryable): Promise<boolean> {
  const mails = await db.query(
    `delete from mails where (shop_id, id) in (
       select shop_id, id from mails where ended_at < now() - $1 * interval '1 day' limit $2)`,
    [KEPT_DAYS, BATCH],
  );
  const days = await db.query(
    `delete from mail_days where (shop_id, subject, day) in (
       select shop_id, subject, day from mail_days where day < (now() at time zone 'utc')::date - 1 limit $1)`,
    [BATCH],
  );
  return mails.rowCount === BATCH || days.rowCount === BATCH;
}
