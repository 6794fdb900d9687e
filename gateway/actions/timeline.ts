import { create } from '@bufbuild/protobuf';
import {
  type GetTimelineResponse,
  type TimelineEntry,
  TimelineEntrySchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { permits, type Role } from '../tenancy/permissions.ts';
import { type ActionContext, callerOf, sent } from './context.ts';
import { permissionsFor } from './permissions.ts';

/** The kind of timeline entries about fraud reports. */
const REPORTED = 'fraud_report.created';

/**
 * Returns a page of a return's timeline, newest entry first.
 *
 * @param o.kinds only entries of these kinds. A returns service of an older release returns all.
 * @param o.role role of the reader. A reader without the permission for fraud reports sees only that a report exists.
 */
export async function getTimeline(
  context: ActionContext,
  o: { returnId: bigint; limit: number; cursor?: string | undefined; kinds?: string[]; role: Role },
): Promise<Pick<GetTimelineResponse, 'entries' | 'nextCursor'>> {
  const { entries, nextCursor } = await context.services.returns.getTimeline({
    ...callerOf(context),
    returnId: o.returnId,
    pageSize: o.limit,
    cursor: o.cursor ?? '',
    kinds: o.kinds ?? [],
  });
  if (permits(o.role, permissionsFor('get_fraud_report'))) return { entries, nextCursor };
  const shown = entries.map((entry) => (entry.kind === REPORTED ? withoutReport(entry) : entry));
  return { entries: shown, nextCursor };
}

/** Removes the author and the facts of a fraud report. The existence of the report is not a secret. */
function withoutReport({ id, returnId, kind, text, occurredAt }: TimelineEntry): TimelineEntry {
  const kept = { id, returnId, kind, text, ...(occurredAt && { occurredAt }) };
  return create(TimelineEntrySchema, kept);
}

/**
 * Adds a note to a return's timeline. The shopper does not see it.
 *
 * @param o.idempotencyKey at most 200 characters; a repeat with the same key returns the first note.
 */
export async function addNote(
  context: ActionContext,
  o: { returnId: bigint; text: string; idempotencyKey: string },
): Promise<TimelineEntry> {
  const { entry } = await context.services.returns.addNote({ ...callerOf(context), ...o });
  return sent(entry, 'entry');
}
