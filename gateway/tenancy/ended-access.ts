import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import {
  type Param,
  param,
  raw,
  type Sql,
  sql,
  unnamed,
} from '../../services/platform/postgres/sql.ts';

/** Maximum number of assistants, or of apps, in a list of those whose access has ended. */
const MAX_ENDED = 50;
/** One more is read. If it exists, there are more than the list has. */
const MAX_READ = MAX_ENDED + 1;
/** Maximum number of connections that are searched for expired ones, newest first. */
const MAX_SEARCHED = 1_000;

/** Who ended an access. */
export interface EndedBy {
  /** Null when nobody did: it expired. */
  readonly byKind: string | null;
  readonly byId: string | null;
  /** Empty when unknown. */
  readonly byName: string;
}

/** The assistants or apps whose access ended last. */
export interface EndedList<T> {
  readonly ended: readonly T[];
  /** Whether there are more than these. */
  readonly isMore: boolean;
}

/** An assistant whose access has ended. */
export interface EndedGrant extends EndedBy {
  readonly id: string;
  /** Null for an entry that does not name the member. */
  readonly userId: bigint | null;
  readonly userName: string | null;
  readonly email: string | null;
  readonly clientId: string;
  /** Host or scheme of the app; null when unknown. */
  readonly app: string | null;
  readonly isReadOnly: boolean;
  /** Null when the audit log has no such entry. */
  readonly createdAt: Date | null;
  /** Null for an access that expired, because that is not recorded. */
  readonly endedAt: Date | null;
  /** `why` of the audit entry, or `expired`. */
  readonly reason: string;
}

/**
 * Lists the assistants of a shop whose access has ended, those that ended last first, at most {@link MAX_ENDED}. Their
 * grants are deleted soon after their end, so the audit log is read, which keeps its entries for 13 months. An access
 * that expired has no entry of its own: it is a connection that was not ended and has no active grant. It has the
 * position of its connection. The entries are written with the change, never for a rejected request, so that each of
 * their users was a member of the shop.
 *
 * @param o.userId only assistants of this member.
 */
export async function listEndedGrants(
  db: Queryable,
  { shopId, userId }: { readonly shopId: bigint; readonly userId?: bigint },
): Promise<EndedList<EndedGrant>> {
  const shop = param(shopId);
  const user = userId === undefined ? undefined : param(String(userId));
  const { rows } = await db.query<EndedGrant>(
    unnamed(sql`
select e.id, u.id as "userId", u.name as "userName", u.email, coalesce(e.detail->>'client_id', '') as "clientId",
       e.detail->>'app' as app, coalesce(e.access = 'read_only', false) as "isReadOnly",
       e.connected_at as "createdAt", e.ended_at as "endedAt", coalesce(e.reason, '') as reason,
       ${actorColumns('e')}
  from ((${disconnected(shop, user)}) union all (${expired(shop, user)})) e
  left join users u on u.id = ${idIn(sql`e.user_id`)}
  left join users b on e.actor_kind = 'user' and b.id = ${idIn(sql`e.actor_id`)}
 order by coalesce(e.ended_at, e.connected_at) desc, e.id limit ${raw(MAX_READ)}`),
  );
  return listOf(rows);
}

/** The assistants that were disconnected last. */
function disconnected(shop: Param, user: Param | undefined): Sql {
  return sql`
select d.subject as id, d.detail->>'user_id' as user_id, d.detail, c.detail->>'access' as access,
       c.at as connected_at, d.at as ended_at, d.detail->>'why' as reason, d.actor_kind, d.actor_id, d.actor_name
  from (
    select * from audit_log
     where shop_id = ${shop} and action = 'assistant.disconnected'
       ${user ? sql`and detail->>'user_id' = ${user}` : sql``}
     order by at desc, id desc limit ${raw(MAX_READ)}) d
  left join lateral (
    select l.at, l.detail from audit_log l
     where l.shop_id = ${shop} and l.subject = d.subject and l.action = 'assistant.connected'
     order by l.at desc limit 1) c on true`;
}

/** The assistants that were connected last, were not disconnected, and have no active grant. */
function expired(shop: Param, user: Param | undefined): Sql {
  return sql`
select c.subject, c.actor_id, c.detail, c.detail->>'access', c.at, null::timestamptz,
       'expired', null, null, null
  from (
    select * from audit_log
     where shop_id = ${shop} and action = 'assistant.connected' ${user ? sql`and actor_id = ${user}` : sql``}
     order by at desc, id desc limit ${raw(MAX_SEARCHED)}) c
 where not exists (
         select from oauth_grants g
          where g.shop_id = ${shop} and g.id = c.subject and g.revoked_at is null and g.expires_at > now())
   and not exists (
         select from audit_log l
          where l.shop_id = ${shop} and l.subject = c.subject and l.action = 'assistant.disconnected')
 order by c.at desc limit ${raw(MAX_READ)}`;
}

/** A partner's app that was removed. */
export interface RemovedApp extends EndedBy {
  /** The id of the audit entry. An app may be installed and removed several times. */
  readonly id: bigint;
  readonly issuer: string;
  readonly clientId: string;
  /** Null when the audit log has no such entry. */
  readonly installedAt: Date | null;
  readonly removedAt: Date;
}

/**
 * Lists the apps that were removed from a shop, those that were removed last first, at most {@link MAX_ENDED}. Reads the
 * audit log, which keeps its entries for 13 months, because an installation is deleted when it ends.
 */
export async function listRemovedApps(
  db: Queryable,
  shopId: bigint,
): Promise<EndedList<RemovedApp>> {
  const shop = param(shopId);
  const { rows } = await db.query<RemovedApp>(
    unnamed(sql`
select r.id, r.subject as "clientId", coalesce(r.detail->>'issuer', '') as issuer, i.at as "installedAt",
       r.at as "removedAt", ${actorColumns('r')}
  from (
    select * from audit_log
     where shop_id = ${shop} and action = 'app.removed'
     order by at desc, id desc limit ${raw(MAX_READ)}) r
  left join lateral (
    select l.at from audit_log l
     where l.shop_id = ${shop} and l.subject = r.subject and l.action = 'app.installed'
       and l.detail->>'issuer' = r.detail->>'issuer' and (l.at, l.id) < (r.at, r.id)
     order by l.at desc, l.id desc limit 1) i on true
  left join users b on r.actor_kind = 'user' and b.id = ${idIn(sql`r.actor_id`)}
 order by r.at desc, r.id desc`),
  );
  return listOf(rows);
}

function listOf<T>(rows: readonly T[]): EndedList<T> {
  return { ended: rows.slice(0, MAX_ENDED), isMore: rows.length > MAX_ENDED };
}

/** The columns of {@link EndedBy} of an entry, with its user `b`. */
function actorColumns(entry: string): Sql {
  const of = raw(entry);
  return sql`${of}.actor_kind as "byKind", ${of}.actor_id as "byId",
       coalesce(nullif(${of}.actor_name, ''), b.name, '') as "byName"`;
}

/** A user id that an entry has as a text; null for another text. */
function idIn(text: Sql): Sql {
  return sql`(case when ${text} ~ '^[1-9][0-9]{0,15}$' then ${text}::bigint end)`;
}
