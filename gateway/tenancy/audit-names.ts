import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import type { LoggedEntry } from './audit-list.ts';

/** The current names of people, keys and invitations, by their ids. */
export interface AuditNames {
  readonly users: ReadonlyMap<string, { readonly name: string; readonly email: string }>;
  /** The descriptions of API keys. */
  readonly keys: ReadonlyMap<string, string>;
  /** The invited addresses, as long as the invitations are kept. */
  readonly invitations: ReadonlyMap<string, string>;
}

/** The form of an id of a user or an invitation. Actors of the kind `user` with another id have no row in `users`. */
const USER_ID = /^[1-9]\d{0,15}$/;

/** Matches the actions that are about a user. */
const ABOUT_MEMBERS = /member|change_role/;
/** Matches the actions that are about an invitation. */
const ABOUT_INVITATIONS = /invitation/;

/**
 * Selects those users of $2 who are members of the shop $1, or were removed from it. The entry of a rejected request
 * may have any user id, because its caller chose it. So without this condition the log would show the addresses of
 * other shops' users.
 */
const MEMBERS = `
  select u.id, u.name, u.email from users u
   where u.id = any($2::bigint[])
     and (exists (select from memberships m where m.shop_id = $1 and m.user_id = u.id)
          or exists (select from audit_log a
                      where a.shop_id = $1 and a.action = 'member.removed' and a.subject = u.id::text))`;

/**
 * Reads the names for entries of one shop, with at most three statements. There is no name for users who were never members of
 * the shop, and for keys that do not exist.
 */
export async function namesFor(
  db: Queryable,
  shopId: bigint,
  entries: readonly LoggedEntry[],
): Promise<AuditNames> {
  const userIds = new Set<string>();
  const others = new Set<string>();
  const invitationIds = new Set<string>();
  for (const { actorKind, actorId, action, subject } of entries) {
    (actorKind === 'user' ? userIds : others).add(actorId);
    if (ABOUT_INVITATIONS.test(action)) invitationIds.add(subject);
    else (ABOUT_MEMBERS.test(action) ? userIds : others).add(subject);
  }
  const users = await db.query<{ id: bigint; name: string | null; email: string }>(MEMBERS, [
    shopId,
    [...userIds].filter((id) => USER_ID.test(id)),
  ]);
  const keys = await db.query<{ keyId: string; description: string }>(
    'select key_id as "keyId", description from api_keys where shop_id = $1 and key_id = any($2::text[])',
    [shopId, [...others]],
  );
  return {
    users: new Map(
      users.rows.map(({ id, name, email }) => [String(id), { name: name ?? '', email }]),
    ),
    keys: new Map(keys.rows.map(({ keyId, description }) => [keyId, description])),
    invitations: await invitedAddresses(db, shopId, invitationIds),
  };
}

async function invitedAddresses(
  db: Queryable,
  shopId: bigint,
  subjects: ReadonlySet<string>,
): Promise<Map<string, string>> {
  const ids = [...subjects].filter((id) => USER_ID.test(id));
  if (ids.length === 0) return new Map();
  const { rows } = await db.query<{ id: bigint; email: string }>(
    'select id, email from invitations where shop_id = $1 and id = any($2::bigint[])',
    [shopId, ids],
  );
  return new Map(rows.map(({ id, email }) => [String(id), email]));
}
