import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { findReturn } from '../actions/returns.ts';
import { getTimeline } from '../actions/timeline.ts';
import { PAGE_MAX } from './fields.ts';
import { type EarlierOutcome, OutcomeUnknown, type ToolContext } from './tool.ts';

/** Maximum number of timeline pages that are read. */
const PAGES_MAX = 10;

/**
 * A stored `updatedAt` is the time when the change began, and the change may be committed this much later.
 * Milliseconds.
 */
const BEGUN_TO_STORED_MS = 60_000;

/**
 * Whether a return's timeline has an entry of this kind since the given time. The entry is written in the
 * transaction of the change, so without an entry the change did not happen. Undefined when the timeline is too long.
 */
export async function happenedSince(
  context: ToolContext,
  o: { returnId: bigint; kind: string; since: Date },
): Promise<boolean | undefined> {
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    // Every first call reads the timeline too, and needs only the newest entry, which is older than the call.
    const read = { returnId: o.returnId, limit: page === 0 ? 1 : PAGE_MAX, cursor };
    const { entries, nextCursor } = await getTimeline(context, read);
    for (const { occurredAt, kind } of entries) {
      if (isBefore(occurredAt, o.since)) return false;
      if (kind === o.kind) return true;
    }
    if (nextCursor === '') return false;
    cursor = nextCursor;
  }
  return undefined;
}

/**
 * Reconciles a call that moves a return into a state. A return that is in this state is the result of the call. If it
 * is not, and the timeline has no such move since the call began, nothing was done.
 */
export async function reconcileMove(
  context: ToolContext,
  o: { returnId: bigint; to: ReturnState; kind: string; since: Date },
): Promise<EarlierOutcome<Return>> {
  const happened = await happenedSince(context, o);
  return async () => {
    const now = await findReturn(context, { case: 'returnId', value: o.returnId });
    if (now.state === o.to) return now;
    if (happened === false) return undefined;
    throw new OutcomeUnknown('the return with get_return_timeline');
  };
}

/**
 * Whether an object was certainly not changed since the given time. `updatedAt` may be the time when a change began
 * and not when it was committed, so it must be earlier by {@link BEGUN_TO_STORED_MS}.
 */
export function isUnchangedSince(updatedAt: Timestamp | undefined, since: Date): boolean {
  return isBefore(updatedAt, new Date(since.getTime() - BEGUN_TO_STORED_MS));
}

/** Both times have millisecond precision, so equal times do not count as before. */
function isBefore(time: Timestamp | undefined, other: Date): boolean {
  return time !== undefined && timestampDate(time).getTime() < other.getTime();
}
