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
  /** Address or command the change came from; absent when unknown. */
  readonly source?: string;
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
export async function recordAudit(tx: Queryable, entry: AuditEntry): Promise<void> {
  const { actor, source } = entry.by;
  await tx.query(
    `insert into audit_log (shop_id, actor_kind, actor_id, actor_name, source, action, subject, detail)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      entry.shopId,
      KINDS.toText(actor.kind ?? Actor_Kind.UNSPECIFIED),
      actor.id,
      actor.name ?? '',
      source ?? null,
      entry.action,
      entry.subject,
      JSON.stringify(entry.detail ?? {}),
    ],
  );
}
