import type {
  GetTimelineResponse,
  TimelineEntry,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** Returns a page of a return's timeline, newest entry first. */
export function getTimeline(
  context: ActionContext,
  o: { returnId: bigint; limit: number; cursor?: string | undefined },
): Promise<GetTimelineResponse> {
  return context.services.returns.getTimeline({
    ...callerOf(context),
    returnId: o.returnId,
    pageSize: o.limit,
    cursor: o.cursor ?? '',
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
