import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  Actor_Kind,
  Actor_KindSchema,
  type ActorSchema,
} from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import type { Queryable } from '../../services/platform/postgres.ts';

const KINDS = enumText(Actor_KindSchema);

/** Who changes something, and from where. */
export interface Author {
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** Address (IPv6 as its /64) or command the change came from; absent when unknown. */
  readonly source?: string;
  /** Of the HTTP request that the change came with; absent when it came with none. */
  readonly requestId?: string;
}

export interface AuditEntry {
  readonly shopId: bigint;
  readonly by: Author;
  /** `noun.verb`, such as `api_key.created`. */
  readonly action: string;
  /** Id of what was changed. Never a secret, never an e-mail address. */
  readonly subject: string;
  readonly detail?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
}

/** Adds one entry to the shop's audit log, in the transaction of the change itself. */
export function recordAudit(tx: Queryable, entry: AuditEntry): Promise<void> {
  return recordAudits(tx, [entry]);
}

/** Adds entries in this order, all or none, with one statement. */
export async function recordAudits(tx: Queryable, entries: readonly AuditEntry[]): Promise<void> {
  await tx.query(
    `insert into audit_log (shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail)
     select shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail::jsonb
       from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                   $8::text[], $9::text[]) with ordinality
            as entry (shop_id, actor_kind, actor_id, actor_name, source, request_id, action, subject, detail, nth)
      order by nth`,
    [
      entries.map((entry) => entry.shopId),
      entries.map(({ by }) => KINDS.toText(by.actor.kind ?? Actor_Kind.UNSPECIFIED)),
      entries.map(({ by }) => by.actor.id),
      entries.map(({ by }) => by.actor.name ?? ''),
      entries.map(({ by }) => by.source ?? null),
      entries.map(({ by }) => by.requestId ?? null),
      entries.map((entry) => entry.action),
      entries.map((entry) => storable(entry.subject)),
      entries.map((entry) => JSON.stringify(entry.detail ?? {})),
    ],
  );
}

/** Characters of a subject that the log takes. */
const SUBJECT_MAX = 500;

/** Ids in paths are what a caller sent: control characters and lone surrogates are shown as U+FFFD. */
function storable(subject: string): string {
  return [...subject.replace(/[\p{Cc}\p{Cs}]/gu, '\u{fffd}')].slice(0, SUBJECT_MAX).join('');
}
