import type { Queryable } from '../../services/platform/postgres.ts';
import { param, type Sql, sql, unnamed } from '../../services/platform/sql.ts';
import { normalForm } from '../../services/platform/text.ts';
import {
  type AuditFilter,
  type AuditObjects,
  ENTRY_COLUMNS,
  entriesOf,
  isAbout,
  type LoggedEntry,
} from './audit-list.ts';

/** What a person searches for. */
export interface AuditSearch {
  /** A part of a name, an id, an address, an action or a changed value. */
  readonly text: string;
  /** The actions whose names in the portal contain the text. */
  readonly actions: readonly string[];
  /** The objects whose name is the text. */
  readonly objects?: readonly AuditObjects[];
}

/** A page of a search. */
export interface FoundEntries {
  readonly entries: readonly LoggedEntry[];
  /** The search continues before this entry. Undefined when every entry was read. */
  readonly readTo: { readonly id: bigint; readonly at: Date } | undefined;
}

/**
 * Maximum number of entries that one call reads, so that the search for a rare text costs no more than the search for a
 * frequent text.
 */
const READ_MAX = 20_000;

/**
 * Searches a shop's audit log, newest first. One call reads a limited number of entries. The next call continues at
 * `readTo`.
 *
 * @throws DomainError NOT_FOUND when the entry `before` does not exist.
 */
export async function searchAudit(
  db: Queryable,
  { limit, ...filter }: AuditFilter,
  search: AuditSearch,
  { readMax = READ_MAX }: { readonly readMax?: number } = {},
): Promise<FoundEntries> {
  const selected = await entriesOf(db, filter);
  const ids = await idsNamed(db, filter.shopId, search.text);
  const { rows } = await db.query<LoggedEntry & { isMatch: boolean }>(
    unnamed(sql`
      with entries as materialized (select * ${selected} limit ${readMax}),
           matching as (
             select entries.*, true as is_match from entries where ${matches(search, ids)}
              order by at desc, id desc limit ${limit + 1}),
           oldest as (
             select entries.*, false as is_match from entries order by at, id limit 1)
      select ${ENTRY_COLUMNS}, is_match as "isMatch"
        from (select * from matching
              union all
              select * from oldest where (select count(*) from entries) = ${readMax}) found
       order by is_match desc, at desc, id desc`),
  );
  const found = rows.filter(({ isMatch }) => isMatch).map(({ isMatch: _, ...entry }) => entry);
  const entries = found.slice(0, limit);
  return {
    entries,
    readTo: found.length > limit ? entries.at(-1) : rows.find(({ isMatch }) => !isMatch),
  };
}

function matches({ text, actions, objects = [] }: AuditSearch, ids: readonly string[]): Sql {
  const wanted = normalForm(text).toLowerCase();
  // The text as it is written inside a JSON string.
  const inJson = JSON.stringify(wanted).slice(1, -1);
  const known = param(ids);
  // If an entry belongs to a call, search only `changes` of its detail. The rest are ids, the role and the phase.
  return sql`
    action = any(${actions}::text[]) or actor_id = any(${known}::text[]) or subject = any(${known}::text[])
    or ${isAbout(objects)}
    or position(${wanted} in lower(normalize(concat_ws(' ', action, actor_id, actor_name, source, request_id, subject)))) > 0
    or position(${inJson} in lower(normalize(case when detail ? 'call' then detail->>'changes' else detail::text end))) > 0`;
}

/** Ids of the shop's members and keys whose name, address or description contains the text. */
async function idsNamed(db: Queryable, shopId: bigint, text: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select u.id::text as id from memberships m join users u on u.id = m.user_id
      where m.shop_id = $1 and position($2 in lower(normalize(concat_ws(' ', u.email, u.name)))) > 0
     union all
     select key_id from api_keys where shop_id = $1 and position($2 in lower(normalize(description))) > 0`,
    [shopId, normalForm(text).toLowerCase()],
  );
  return rows.map(({ id }) => id);
}
