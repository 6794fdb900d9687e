import type { Queryable } from '../../services/platform/postgres.ts';
import type { LoggedEntry } from './audit-list.ts';

/** The names of people and keys by their ids, as they are now. */
export interface AuditNames {
  readonly users: ReadonlyMap<string, { readonly name: string; readonly email: string }>;
  /** The descriptions of API keys. */
  readonly keys: ReadonlyMap<string, string>;
}

/** A user id; other actors of the kind `user` have no row. */
const USER_ID = /^[1-9]\d{0,15}$/;

/** Actions whose object is a user. */
const ABOUT_MEMBERS = /member|change_role/;

/** Reads the names for entries of one shop, with two statements. Users and keys that are gone have none. */
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
  const users = await db.query<{ id: bigint; name: string | null; email: string }>(
    'select id, name, email from users where id = any($1::bigint[])',
    [[...userIds].filter((id) => USER_ID.test(id))],
  );
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
