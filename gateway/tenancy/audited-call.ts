import { randomUUID } from 'node:crypto';
import type { AuditDetail, AuditEntry } from './audit.ts';
import type { AuditWriter } from './audit-writer.ts';
import type { OpenCall } from './open-calls.ts';

/** How a call ended, for its entry. */
export interface CallEnd {
  /** `refused`: nothing was changed. `unknown`: the change may have been made. */
  readonly phase: 'done' | 'refused' | 'unknown';
  /** The id of the object that the call created. */
  readonly subject?: string;
  readonly detail?: AuditDetail;
}

/**
 * Runs a write, or a read of a secret, that gets one entry in the audit log, with its outcome.
 *
 * Before the work the call is committed as open. So every change is in the log, even if the process dies: an open call
 * without an outcome becomes an entry with the phase `unknown`. While open calls cannot be written, nothing is changed.
 *
 * @param audit `end` of the writer, or `endNow`.
 * @param entry the call before its work.
 * @throws when the call cannot be recorded, or what `work` throws.
 */
export async function auditedCall<T>(
  audit: { open: AuditWriter['open']; end(call: OpenCall): void | Promise<void> },
  entry: AuditEntry,
  work: () => Promise<T>,
  endOf: (outcome: PromiseSettledResult<T>) => CallEnd,
): Promise<T> {
  const call = randomUUID();
  const about = { ...entry, detail: { call, ...entry.detail } };
  await audit.open({ call, entry: about });
  const [outcome] = await Promise.allSettled([(async () => work())()]);
  let end: CallEnd = { phase: 'unknown' };
  try {
    end = endOf(outcome);
  } finally {
    const { phase, subject = entry.subject } = end;
    const detail = { ...about.detail, phase, ...end.detail };
    await audit.end({ call, entry: { ...about, subject, detail } });
  }
  if (outcome.status === 'rejected') throw outcome.reason;
  return outcome.value;
}
