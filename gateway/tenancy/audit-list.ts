import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../services/platform/errors.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { raw, type Sql, sql, unnamed } from '../../services/platform/sql.ts';

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
  /** Maximum number of entries. */
  readonly limit: number;
  /** Id of an entry. Only entries before it are returned. */
  readonly before?: bigint;
}

/** The columns of a {@link LoggedEntry}. */
export const ENTRY_COLUMNS = raw(`id, at, actor_kind as "actorKind", actor_id as "actorId",
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
  { shopId, since, until, actor, action, before, objects }: Omit<AuditFilter, 'limit'>,
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
       ${prefix === undefined ? sql`` : sql`and starts_with(action, ${prefix})`}
       ${objects === undefined ? sql`` : sql`and subject = any(${objects.flatMap((one) => one.subjects)}::text[]) and ${isAbout(objects)}`}
       ${start === undefined ? sql`` : sql`and (at, id) < (${start}::timestamptz, ${before})`}
     order by at desc, id desc`;
}

/** The SQL condition for entries about any of the objects. */
export function isAbout(objects: readonly AuditObjects[]): Sql {
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
