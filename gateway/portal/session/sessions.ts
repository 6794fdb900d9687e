import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { isOutage } from '../../../services/platform/postgres/outage.ts';
import { inTransaction, type Queryable } from '../../../services/platform/postgres/postgres.ts';
import { raw, sql } from '../../../services/platform/postgres/sql.ts';
import { NoPermit, Permits } from '../../../services/platform/process/permits.ts';
import { type Author, recordAudit, recordAudits } from '../../tenancy/audit.ts';
import type { Role } from '../../tenancy/permissions.ts';
import { endSessions, type SessionEnd } from '../../tenancy/session-log.ts';
import type { SignInAccount } from '../../tenancy/sign-in-accounts.ts';

/** A valid session with the user, the shop and the role, as currently stored. */
export interface PortalSession {
  readonly id: string;
  readonly userId: bigint;
  readonly email: string;
  readonly name: string | null;
  readonly shopId: bigint;
  readonly shopName: string;
  /** ISO 4217. */
  readonly currency: string;
  readonly sandbox: boolean;
  readonly role: Role;
  readonly createdAt: Date;
  /** To the minute. */
  readonly lastUsedAt: Date;
  readonly expiresAt: Date;
  /** IP address at sign-in; null when unknown. */
  readonly source: string | null;
  readonly device: string;
}

/** A shop that the account of a session may use. */
export interface SessionShop {
  readonly id: bigint;
  readonly name: string;
  readonly currency: string;
  readonly sandbox: boolean;
  readonly role: Role;
}

export interface NewSession {
  readonly userId: bigint;
  readonly shopId: bigint;
  readonly account: SignInAccount;
  readonly source: string;
  readonly device: string;
  /** Id of the request, for the audit log. */
  readonly requestId?: string;
}

/** A person who signed in with a browser that they had not used before. */
export interface NewDevice {
  readonly shopId: bigint;
  readonly userId: bigint;
  readonly device: string;
  readonly source: string;
}

/** Sessions of the portal. All times are by the database's clock. */
export interface PortalSessions {
  /** Starts a session and returns its secret id, which is stored nowhere. */
  start(session: NewSession): Promise<string>;
  /**
   * Returns the session of a secret id and notes that it is used. Undefined when it ended, or when the user's
   * membership of the shop ended or is linked to another account. For errors see {@link cannotReadSession}.
   */
  find(secret: string): Promise<PortalSession | undefined>;
  /** The user's valid sessions, last used first. */
  list(userId: bigint): Promise<PortalSession[]>;
  /** The shops that the session can be moved to, by name. */
  shops(sessionId: string): Promise<SessionShop[]>;
  /** Moves the session to another shop of its account. Returns false when the account may not use that shop. */
  switchShop(sessionId: string, shopId: bigint, by: Author): Promise<boolean>;
  /** Ends one session of the user. Returns false when there is none. */
  end(userId: bigint, sessionId: string, o: SessionEnded): Promise<boolean>;
  /** Ends the session of a secret id, if there is one. */
  endSecret(secret: string, from: Pick<Author, 'source' | 'requestId'>): Promise<void>;
  /** Ends all sessions of the user. Returns how many there were. */
  endAll(userId: bigint, o: SessionEnded): Promise<number>;
  /** Ends the sessions of an account that began before it signed out at the identity provider. */
  endAccount(account: SignInAccount & { readonly at: Date }): Promise<number>;
}

interface SessionEnded {
  readonly why: SessionEnd;
  readonly by: Author;
}

/** The author of ends that nobody asked for here. */
const SYSTEM: Author = { actor: { kind: Actor_Kind.SYSTEM, id: 'portal', name: 'Portal' } };

/** Maximum number of sessions of a user. A new one ends the one that was not used for the longest time. */
const MAX_SESSIONS = 50;
/**
 * Anybody can invent a secret id, and each costs a statement. So only this part of the connections reads sessions, and a
 * flood of invented ids leaves the others free. `waitMs` is the time that `createPool` waits for a connection.
 */
const READERS_SHARE = 0.4;
const WAITING_READERS = { maxWaiting: 256, waitMs: 5_000 };
/** Maximum number of shops in a list. */
const MAX_SHOPS = 200;

/** Membership `m` is linked to the account of session `s`, and has been since its sign-in. */
const IS_LINKED = `m.user_id = s.user_id and m.sign_in_issuer = s.issuer and m.sign_in_subject = s.subject
   and (s.links is null or m.link = any(s.links))`;

/** A session is valid in the membership that it is used in. $1 is the maximum idle time in seconds. */
const VALID = `
  from portal_sessions s
  join memberships m on m.shop_id = s.shop_id and ${IS_LINKED}
  join users u on u.id = s.user_id
  join shops on shops.id = s.shop_id
 where s.expires_at > now() and s.last_used_at > now() - $1 * interval '1 second'`;

const COLUMNS = `
  s.id, s.user_id as "userId", u.email, u.name, s.shop_id as "shopId", shops.name as "shopName", shops.currency,
  shops.sandbox, m.role, s.created_at as "createdAt", s.last_used_at as "lastUsedAt", s.expires_at as "expiresAt",
  s.source, s.device, s.last_used_at < now() - interval '1 minute' as "isStale"`;

interface SessionOptions {
  /** Maximum duration of a session. */
  readonly hours: number;
  /** Maximum time without use. */
  readonly idleMinutes: number;
  /** Called in the transaction of a sign-in with a new device. */
  readonly onNewDevice?: (tx: Queryable, by: NewDevice) => Promise<void>;
}

/** The audit log of a shop has an entry for each session that starts, moves into the shop, or ends. */
export function createPortalSessions(pool: pg.Pool, o: SessionOptions): PortalSessions {
  const idleS = o.idleMinutes * 60;
  const readers = new Permits({
    size: Math.ceil(pool.options.max * READERS_SHARE),
    ...WAITING_READERS,
  });
  return {
    start: (session) => startSession(pool, session, o),
    async find(secret) {
      const release = await readers.take();
      const { rows } = await pool
        .query<PortalSession & { isStale: boolean }>(
          `select ${COLUMNS} ${VALID} and s.token_hash = $2`,
          [idleS, hashOf(secret)],
        )
        .finally(release);
      const [session] = rows;
      if (session?.isStale) {
        await pool.query('update portal_sessions set last_used_at = now() where id = $1', [
          session.id,
        ]);
      }
      return session;
    },
    async list(userId) {
      const { rows } = await pool.query<PortalSession>(
        `select ${COLUMNS} ${VALID} and s.user_id = $2 order by s.last_used_at desc, s.id limit ${MAX_SESSIONS}`,
        [idleS, userId],
      );
      return rows;
    },
    async shops(sessionId) {
      const { rows } = await pool.query<SessionShop>(
        `select shops.id, shops.name, shops.currency, shops.sandbox, m.role
           from portal_sessions s
           join memberships m on ${IS_LINKED}
           join shops on shops.id = m.shop_id
          where s.id = $1 order by shops.name, shops.id limit ${MAX_SHOPS}`,
        [sessionId],
      );
      return rows;
    },
    switchShop: (sessionId, shopId, by) =>
      inTransaction(pool, async (tx) => {
        const { rows } = await tx.query<{ device: string; from: bigint }>(
          `with former as (select id, shop_id from portal_sessions where id = $1 for update)
           update portal_sessions s set shop_id = $2 from former where s.id = former.id and exists (
             select from memberships m where m.shop_id = $2 and ${IS_LINKED})
           returning s.device, former.shop_id as "from"`,
          [sessionId, shopId],
        );
        const [moved] = rows;
        if (!moved) return false;
        const { device, from } = moved;
        if (from === shopId) return true;
        const entry = { by, subject: sessionId, detail: { device, why: 'switched_shop' } };
        await recordAudits(tx, [
          { ...entry, shopId: from, action: 'session.ended' },
          { ...entry, shopId, action: 'session.started' },
        ]);
        return true;
      }),
    async end(userId, sessionId, how) {
      const which = sql`user_id = ${userId} and id::text = ${sessionId}`;
      return (await endSessions(pool, which, how)) === 1;
    },
    async endSecret(secret, from) {
      const by: Author = { ...from, actor: SYSTEM.actor };
      await endSessions(pool, sql`token_hash = ${hashOf(secret)}`, { why: 'new_sign_in', by });
    },
    endAll: (userId, how) => endSessions(pool, sql`user_id = ${userId}`, how),
    endAccount: ({ issuer, subject, at }) =>
      endSessions(
        pool,
        // A repeated message must not end a newer session. The clocks may differ by seconds.
        sql`issuer = ${issuer} and subject = ${subject} and created_at <= ${at}::timestamptz + interval '5 seconds'`,
        { why: 'signed_out_at_provider', by: SYSTEM },
      ),
  };
}

/** Whether `find` failed because of an outage of the database, or because too many sessions are being read. */
export function cannotReadSession(error: unknown): boolean {
  return isOutage(error) || error instanceof NoPermit;
}

/** Maximum number of rows that one statement deletes, so that locks stay short. */
const BATCH = 1_000;

/** Ends a batch of expired sessions. Returns whether there may be more. Safe to run twice. */
export async function purgePortalSessions(db: Queryable): Promise<boolean> {
  const ended = await endSessions(
    db,
    sql`id in (select id from portal_sessions where expires_at < now() limit ${BATCH} for update skip locked)`,
    { why: 'expired', by: SYSTEM },
  );
  return ended === BATCH;
}

function startSession(pool: pg.Pool, session: NewSession, o: SessionOptions): Promise<string> {
  const secret = randomBytes(32).toString('base64url');
  const { userId, shopId, device, source, requestId } = session;
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ id: string }>(
      `insert into portal_sessions (token_hash, user_id, shop_id, issuer, subject, source, device, expires_at, links)
       values ($1, $2, $3, $4, $5, $6, $7, now() + $8 * interval '1 hour', array(
         select link from memberships where user_id = $2 and sign_in_issuer = $4 and sign_in_subject = $5))
       returning id`,
      [
        hashOf(secret),
        userId,
        shopId,
        session.account.issuer,
        session.account.subject,
        source === '' ? null : source,
        device,
        o.hours,
      ],
    );
    const by: Author = {
      actor: { kind: Actor_Kind.USER, id: String(userId), name: '' },
      ...(source !== '' && { source }),
      ...(requestId !== undefined && { requestId }),
    };
    const isNew = await isNewDevice(tx, session);
    await recordAudit(tx, {
      ...{ shopId, by, action: 'session.started', subject: rows[0]?.id ?? '' },
      detail: { device, ...(isNew && { new_device: true }) },
    });
    if (isNew) await o.onNewDevice?.(tx, { shopId, userId, device, source });
    const oldest = sql`id in (select id from portal_sessions where user_id = ${userId}
                               order by last_used_at desc offset ${raw(MAX_SESSIONS)})`;
    await endSessions(tx, oldest, { why: 'too_many', by: SYSTEM });
    return secret;
  });
}

/** Whether the user has signed in before, and never with this device. Notes the device. */
async function isNewDevice(tx: Queryable, { userId, device }: NewSession): Promise<boolean> {
  const { rows } = await tx.query<{ isNew: boolean }>(
    `with others as (select from sign_in_devices where user_id = $1 limit 1), added as (
       insert into sign_in_devices (user_id, device) values ($1, $2) on conflict (user_id, device) do nothing returning 1)
     select exists (select from others) and exists (select from added) as "isNew"`,
    [userId, device],
  );
  return rows[0]?.isNew === true;
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
