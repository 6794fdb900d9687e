import type { MessageInitShape } from '@bufbuild/protobuf';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { named, rowsOf, sql } from '../../services/platform/postgres/sql.ts';
import { actorKindText } from '../../services/platform/values/actor.ts';
import type { FieldChange } from './field-change.ts';

/** Who made a change, for the audit log. */
export interface Author {
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** IP address of the client (IPv6 as its /64), or name of the command; absent when unknown. */
  readonly source?: string;
  /** Id of the HTTP request; absent when the change did not come from one. */
  readonly requestId?: string;
}

export interface AuditEntry {
  readonly shopId: bigint;
  readonly by: Author;
  /** `noun.verb`, such as `api_key.created`. */
  readonly action: string;
  /** Id of the changed object. It must not be a secret or an e-mail address. */
  readonly subject: string;
  readonly detail?: AuditDetail;
}

export type AuditDetail = Readonly<
  Record<string, string | number | boolean | readonly string[] | readonly FieldChange[]>
>;

/**
 * Adds one entry to the shop's audit log, in the transaction of the change. Entries are kept for 13 months: see
 * `purgeAuditLog` in `open-parts.ts`.
 */
export function recordAudit(tx: Queryable, entry: AuditEntry): Promise<void> {
  return recordAudits(tx, [entry]);
}

/** Adds entries in this order with one statement, which adds all or none. */
export async function recordAudits(tx: Queryable, entries: readonly AuditEntry[]): Promise<void> {
  await tx.query(
    named(
      'record-audits',
      sql`
     insert into audit_log (shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail)
     select shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail::jsonb
       from ${entryRows('entry', entries, 'nth')}
      order by nth`,
    ),
  );
}

/** The kind of an author, as the table has it. */
export function kindOf({ actor }: Author): string {
  return actorKindText.toText(actor.kind ?? Actor_Kind.UNSPECIFIED);
}

/** The columns of a set of rows with an entry. */
export function entryColumns<T>(of: (row: T) => AuditEntry) {
  return {
    shop_id: ['bigint', (row: T) => of(row).shopId],
    actor_kind: ['text', (row: T) => kindOf(of(row).by)],
    actor_id: ['text', (row: T) => of(row).by.actor.id],
    actor_name: ['text', (row: T) => of(row).by.actor.name ?? ''],
    source: ['text', (row: T) => of(row).by.source],
    request_id: ['text', (row: T) => of(row).by.requestId],
    action: ['text', (row: T) => of(row).action],
    subject: ['text', (row: T) => storable(of(row).subject)],
    detail: ['text', (row: T) => JSON.stringify(of(row).detail ?? {})],
  } as const;
}

const entryRows = rowsOf(entryColumns((entry: AuditEntry) => entry));

/** Maximum length of a subject. Characters. */
const SUBJECT_MAX = 500;

/**
 * Replaces control characters and lone surrogates by U+FFFD. Subjects may have them, because ids in paths may contain
 * any characters.
 */
function storable(subject: string): string {
  return [...subject.replace(/[\p{Cc}\p{Cs}]/gu, '\u{fffd}')].slice(0, SUBJECT_MAX).join('');
}
