import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { param, raw, type Sql, sql, unnamed } from '../../services/platform/postgres/sql.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { normalForm } from '../../services/platform/values/text.ts';

export interface LoggedEntry {
  /** The id of the entry; also the cursor for older entries. */
  readonly id: bigint;
  readonly at: Date;
  readonly actorKind: string;
  /** Key id, client id or user id. */
  readonly actorId: string;
  readonly actorName: string;
  /** IP address of the client, or name of the command. */
  readonly source: string | null;
  readonly requestId: string | null;
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** How many equal calls an entry stands for, such as `412 alike`; empty for one. */
export function alikeText({ detail: { alike } }: LoggedEntry): string[] {
  return typeof alike === 'number' ? [`${alike} alike`] : [];
}

/** Objects of one kind. The actions select the kind, because objects of different kinds may have equal ids. */
export interface AuditObjects {
  readonly actions: readonly string[];
  readonly subjects: readonly string[];
}

export interface AuditFilter {
  readonly shopId: bigint;
  /** Only entries about any of these objects. */
  readonly objects?: readonly AuditObjects[];
  /** Earliest time. Inclusive. */
  readonly since?: Date;
  /** Latest time. Exclusive. */
  readonly until?: Date;
  /** Id of the actor: a key id, a client id or a user id. */
  readonly actor?: string;
  /** An action, or a prefix followed by `*`, such as `rest.*`. */
  readonly action?: string;
  /** Only entries with any of these actions. */
  readonly actions?: readonly string[];
  /** Maximum number of entries. */
  readonly limit: number;
  /** Id of an entry. Only entries before it are returned. */
  readonly before?: bigint;
}

/** The columns of a {@link LoggedEntry}. */
const ENTRY_COLUMNS = raw(`id, at, actor_kind as "actorKind", actor_id as "actorId",
  actor_name as "actorName", source, request_id as "requestId", action, subject, detail`);

/** The same of a call that has no entry yet. */
const OPEN_CALL_COLUMNS =
  raw(`0::bigint as id, at, actor_kind as "actorKind", actor_id as "actorId",
  actor_name as "actorName", source, request_id as "requestId", action, subject, detail`);

/**
 * Lists a shop's audit log, newest first.
 *
 * @throws DomainError NOT_FOUND when the entry `before` does not exist.
 */
export async function listAudit(db: Queryable, filter: AuditFilter): Promise<LoggedEntry[]> {
  const entries = await entriesOf(db, filter);
  const { rows } = await db.query<LoggedEntry>(
    unnamed(sql`select ${ENTRY_COLUMNS} ${entries} limit ${filter.limit}`),
  );
  return rows;
}

/**
 * The part `from … where … order by …` of a statement for the entries that a filter selects, newest first.
 *
 * @throws DomainError NOT_FOUND when the entry `before` does not exist.
 */
export async function entriesOf(
  db: Queryable,
  { shopId, since, until, actor, action, actions, before, objects }: Omit<AuditFilter, 'limit'>,
): Promise<Sql> {
  const start = before === undefined ? undefined : await timeOf(db, shopId, before);
  const prefix = action?.endsWith('*') ? action.slice(0, -1) : undefined;
  return sql`
      from audit_log
     where shop_id = ${shopId}
       ${since ? sql`and at >= ${since}` : sql``}
       ${until ? sql`and at < ${until}` : sql``}
       ${actor === undefined ? sql`` : sql`and actor_id = ${actor}`}
       ${action === undefined || prefix !== undefined ? sql`` : sql`and action = ${action}`}
       ${actions === undefined ? sql`` : sql`and action = any(${actions}::text[])`}
       ${prefix === undefined ? sql`` : sql`and starts_with(action, ${prefix})`}
       ${objects === undefined ? sql`` : sql`and subject = any(${objects.flatMap((one) => one.subjects)}::text[]) and ${isAbout(objects)}`}
       ${start === undefined ? sql`` : sql`and (at, id) < (${start}::timestamptz, ${before})`}
     order by at desc, id desc`;
}

/** The SQL condition for entries about any of the objects. */
function isAbout(objects: readonly AuditObjects[]): Sql {
  const each = objects.map(
    ({ actions, subjects }) =>
      sql`or (subject = any(${subjects}::text[]) and action = any(${actions}::text[]))`,
  );
  return sql`(false ${each.reduce((all, one) => sql`${all} ${one}`, sql``)})`;
}

/** The time of an entry in PostgreSQL's text form, because a `Date` would lose the microseconds. */
async function timeOf(db: Queryable, shopId: bigint, id: bigint): Promise<string> {
  const { rows } = await db.query<{ at: string }>(
    'select at::text as at from audit_log where shop_id = $1 and id = $2',
    [shopId, id],
  );
  const [entry] = rows;
  if (entry) return entry.at;
  const text = 'the shop has no such entry in its audit log';
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, text);
}

/** What a person searches for. */
interface AuditSearch {
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

/**
 * Finds the calls of assistants that have made these changes, with one statement. An entry that was written together
 * with its change does not say its way, but the entry of the call has the same request and the same subject. Filters
 * and pages may leave out the entry of the call, so it is read by itself. Both are written within a minute, so a subject
 * of many calls costs no more.
 *
 * @returns the entry of the call, by the id of the entry of the change.
 */
export async function assistantCalls(
  db: Queryable,
  shopId: bigint,
  entries: readonly LoggedEntry[],
): Promise<ReadonlyMap<bigint, LoggedEntry>> {
  const changes = entries.filter(({ requestId, detail }) => requestId !== null && !detail.call);
  if (changes.length === 0) return new Map();
  const isItsCall = sql`shop_id = change.shop_id and subject = change.subject
             and at between change.at - interval '1 minute' and change.at + interval '1 minute'
             and request_id = change.request_id and starts_with(action, 'mcp.')`;
  const { rows } = await db.query<LoggedEntry & { readonly changeId: bigint }>(
    unnamed(sql`
      select change.id as "changeId", call.*
        from audit_log change
        join lateral (
          select ${ENTRY_COLUMNS} from audit_log where ${isItsCall}
          union all
          select ${OPEN_CALL_COLUMNS} from open_calls where ${isItsCall}
           limit 1) call on true
       where change.shop_id = ${shopId} and change.id = any(${changes.map(({ id }) => id)}::bigint[])`),
  );
  return new Map(rows.map(({ changeId, ...call }) => [changeId, call]));
}
