import { randomUUID } from 'node:crypto';
import type { Logger } from '../../services/platform/log.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { type AuditEntry, recordAudit } from '../tenancy/audit.ts';
import type { ToolContext } from './tool.ts';

type Detail = NonNullable<AuditEntry['detail']>;

/** A write whose first audit entry is committed. */
export interface AuditedCall {
  /**
   * Writes the second entry with the outcome. `refused` means that nothing was changed. A failure to write is logged
   * and not thrown, because the change itself is complete.
   *
   * @param changed the fields that the call has changed.
   */
  recordOutcome(outcome: 'done' | 'refused' | 'unknown', changed?: Detail): Promise<void>;
}

/**
 * Writes the first of two audit entries for a change by an assistant. Both entries have the same `call`.
 *
 * The first entry (phase `asked`) is committed before the change, so every change has an entry even if the process or
 * the database fails. A single entry after the change could be lost, because the change is in the transaction of
 * another service. A first entry without a second one means that the outcome is unknown. While the audit log cannot be
 * written, nothing is changed.
 *
 * @throws when the audit log cannot be written.
 */
export async function beginAuditedCall(
  db: Queryable,
  logger: Logger,
  o: {
    readonly context: ToolContext;
    readonly tool: string;
    readonly subject: string;
    readonly source: string;
    readonly requestId: string;
    readonly hasIdempotencyKey: boolean;
  },
): Promise<AuditedCall> {
  const { context, tool } = o;
  const call = randomUUID();
  const { app, clientId, role, selfName } = context.user;
  const entry = (phase: string, changed: Detail = {}): AuditEntry => ({
    shopId: context.shopId,
    by: {
      actor: context.actor,
      source: o.source,
      ...(o.requestId !== '' && { requestId: o.requestId }),
    },
    action: `mcp.${tool}`,
    subject: o.subject,
    detail: {
      call,
      phase,
      role,
      client_id: clientId,
      ...(app !== null && { app }),
      ...(selfName !== null && { calls_itself: selfName }),
      idempotency_key: o.hasIdempotencyKey,
      ...changed,
    },
  });
  await recordAudit(db, entry('asked'));
  return {
    async recordOutcome(outcome, changed) {
      try {
        await recordAudit(db, entry(outcome, changed));
      } catch (error) {
        logger.error({ err: error, tool, call, outcome }, 'outcome of a tool call not audited');
      }
    },
  };
}
