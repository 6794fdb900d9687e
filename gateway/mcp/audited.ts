import { randomUUID } from 'node:crypto';
import type { Logger } from '../../services/platform/log.ts';
import type { Queryable } from '../../services/platform/postgres.ts';
import { type AuditEntry, recordAudit } from '../tenancy/audit.ts';
import type { ToolContext } from './tool.ts';

/** A write that is in the audit log before it is done. */
export interface AuditedCall {
  /** Adds how it ended. Never rejects: the work is done, and the first entry says that it was begun. */
  ended(outcome: 'done' | 'refused' | 'unknown'): Promise<void>;
}

/**
 * Writes into the audit log that a person's assistant is about to change something, and afterwards how
 * that ended: two entries with the same `call`.
 *
 * The first is committed before the call. Whatever the process or the database does then, no change is
 * without an entry: one without its second says that the end is not known. Written only afterwards, a
 * change would be lost to the log when the process dies between; and the change itself lies in another
 * service's transaction. So while the log cannot be written, nothing is changed.
 *
 * @throws when the log cannot be written.
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
        logger.error({ err: error, tool, call, outcome }, 'the end of a tool call was not audited');
      }
    },
  };
}
