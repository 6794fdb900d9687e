import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError } from '../../services/platform/errors.ts';
import type { Queryable } from '../../services/platform/postgres.ts';

export interface LoggedEntry {
  /** The id of the entry; also the cursor for older entries. */
  readonly id: bigint;
  readonly at: Date;
  readonly actorKind: string;
  /** Key id, client id or user id. */
  readonly actorId: string;
  readonly actorName: string;
  /** IP address or command. */
  readonly source: string | null;
  readonly requestId: string | null;
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface AuditFilter {
  readonly shopId: bigint;
  /** Inclusive. */
  readonly since?: Date;
  /** Exclusive. */
  readonly until?: Date;
  /** Id of the actor: a key id, a client id or a user id. */
  readonly actor?: string;
  /** An action, or a prefix followed by `*`, such as `rest.*`. */
  readonly action?: string;
  /** Maximum number of entries. */
  readonly limit: number;
  /** Only entries older than this one. */
  readonly before?: bigint;
}

/**
 * A shop's audit log, newest first.
 *
 * @throws DomainError NOT_FOUND when the entry `before` does not exist.
 */
export async function listAudit(db: Queryable, filter: AuditFilter): Promise<LoggedEntry[]> {
  const { shopId, before } = filter;
  const start = before === undefined ? undefined : await timeOf(db, shopId, before);
  const isPrefix = filter.action?.endsWith('*') ?? false;
  const { rows } = await db.query<LoggedEntry>(
    `select id, at, actor_kind as "actorKind", actor_id as "actorId", actor_name as "actorName", source,
            request_id as "requestId", action, subject, detail
       from audit_log
      where shop_id = $1
        and ($2::timestamptz is null or at >= $2)
        and ($3::timestamptz is null or at < $3)
        and ($4::text is null or actor_id = $4)
        and ($5::text is null or action = $5)
        and ($6::text is null or starts_with(action, $6))
        and ($7::text is null or (at, id) < ($7::timestamptz, $8))
      order by at desc, id desc limit $9`,
    [
      shopId,
      filter.since ?? null,
      filter.until ?? null,
      filter.actor ?? null,
      isPrefix ? null : (filter.action ?? null),
      isPrefix ? filter.action?.slice(0, -1) : null,
      start ?? null,
      before ?? null,
      filter.limit,
    ],
  );
  return rows;
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
