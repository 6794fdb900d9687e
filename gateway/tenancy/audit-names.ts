import type { Queryable } from '../../services/platform/postgres.ts';
import type { LoggedEntry } from './audit-list.ts';

/** The current names of people and keys, by their ids. */
export interface AuditNames {
  readonly users: ReadonlyMap<string, { readonly name: string; readonly email: string }>;
  /** The descriptions of API keys. */
  readonly keys: ReadonlyMap<string, string>;
}

/** The form of a user id. Actors of the kind `user` with another id have no row in `users`. */
const USER_ID = /^[1-9]\d{0,15}$/;

/** Matches the actions that are about a user. */
const ABOUT_MEMBERS = /member|change_role/;

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
 * Reads the names for entries of one shop, with two statements. There is no name for users who were never members of
 * the shop, and for keys that do not exist.
 */
export async function namesFor(
  db: Queryable,
  shopId: bigint,
  entries: readonly LoggedEntry[],
): Promise<AuditNames> {
  const userIds = new Set<string>();
  const others = new Set<string>();
  for (const { actorKind, actorId, action, subject } of entries) {
    (actorKind === 'user' ? userIds : others).add(actorId);
    (ABOUT_MEMBERS.test(action) ? userIds : others).add(subject);
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
  };
}
