import { create } from '@bufbuild/protobuf';
import {
  type GetTimelineResponse,
  type TimelineEntry,
  TimelineEntrySchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Role } from '../tenancy/permissions.ts';
import { type ActionContext, callerOf, sent } from './context.ts';
import { hasRight, type RightName } from './rights.ts';

/** The kind of timeline entries about fraud reports. */
const REPORTED = 'fraud_report.created';

/**
 * Returns a page of a return's timeline, newest entry first, as {@link hideReports} shows it to the reader.
 *
 * @param o.role role of the reader; absent for a key or an app. No scope opens fraud reports.
 */
export async function getTimeline(
  context: ActionContext,
  o: { returnId: bigint; limit: number; cursor?: string | undefined; role?: Role },
): Promise<GetTimelineResponse> {
  const page = await context.services.returns.getTimeline({
    ...callerOf(context),
    returnId: o.returnId,
    pageSize: o.limit,
    cursor: o.cursor ?? '',
  });
  const { role } = o;
  hideReports(page, (right) => role !== undefined && hasRight(role, right));
  return page;
}

/**
 * Removes the author and the facts of fraud reports for a reader without the right to see them. The existence of a
 * report is not a secret.
 */
export function hideReports(page: GetTimelineResponse, may: (right: RightName) => boolean): void {
  if (may('seeFraudReports')) return;
  page.entries = page.entries.map((entry) => {
    if (entry.kind !== REPORTED) return entry;
    const { id, returnId, kind, text, occurredAt } = entry;
    const kept = { id, returnId, kind, text, ...(occurredAt && { occurredAt }) };
    return create(TimelineEntrySchema, kept);
  });
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
