import { randomUUID } from 'node:crypto';
import type { Logger } from '../../services/platform/log.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { type AuditEntry, recordAudit } from '../tenancy/audit.ts';
import type { ToolContext } from './tool.ts';

/** A write whose first audit entry was committed before it began. */
export interface AuditedCall {
  /** Adds the entry with the outcome. Never rejects: the write is done already and has its first entry. */
  ended(outcome: 'done' | 'refused' | 'unknown'): Promise<void>;
}

/**
 * Writes two audit entries for a change by a person's assistant, both with the same `call`: one before the
 * change and one with its outcome.
 *
 * The first entry is committed before the call, so every change has an entry, even if the process or the
 * database fails. A first entry without a second means that the outcome is unknown. A single entry afterwards
 * would be lost if the process died in between, because the change itself is in another service's transaction.
 * While the audit log cannot be written, nothing is changed.
 *
 * @throws when the audit log cannot be written.
 */
export async function beginAudited(
  db: Queryable,
  logger: Logger,
  o: {
    readonly context: ToolContext;
    readonly tool: string;
    readonly subject: string;
    readonly source: string;
    readonly requestId: string;
    readonly withKey: boolean;
  },
): Promise<AuditedCall> {
  const { context, tool } = o;
  const call = randomUUID();
  const { clientId, role } = context.user;
  const entry = (phase: string): AuditEntry => ({
    shopId: context.shopId,
    by: {
      actor: context.actor,
      source: o.source,
      ...(o.requestId !== '' && { requestId: o.requestId }),
    },
    action: `mcp.${tool}`,
    subject: o.subject,
    detail: { call, phase, role, client_id: clientId, idempotency_key: o.withKey },
  });
  await recordAudit(db, entry('asked'));
  return {
    async ended(outcome) {
      try {
        await recordAudit(db, entry(outcome));
      } catch (error) {
        logger.error({ err: error, tool, call, outcome }, 'outcome of a tool call not audited');
      }
    },
  };
}
