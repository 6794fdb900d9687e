import type { Timestamp } from '@bufbuild/protobuf/wkt';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { findReturn } from '../actions/returns.ts';
import { getTimeline } from '../actions/timeline.ts';
import { PAGE_MAX } from './fields.ts';
import { OutcomeUnknown, type ToolContext, type Verdict } from './tool.ts';

/** Of a timeline that is looked through; more entries within the life of a key are nobody's doing. */
const PAGES_MAX = 10;

/** A change that was begun may be stored so much later, and then carries the time at which it began. Milliseconds. */
const BEGUN_TO_STORED_MS = 60_000;

/**
 * Whether a return's timeline has an entry of that kind since then. It is written in the transaction of the
 * change, so without one the change did not happen; undefined when there is too much to look through.
 */
export async function happenedSince(
  context: ToolContext,
  o: { returnId: bigint; kind: string; since: Date },
): Promise<boolean | undefined> {
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    // Every first call looks, and one entry tells it enough: nothing is newer than its own beginning.
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
 * Judges a call that was to move a return into a state: the return that is there is its answer; where it
 * is not, and the timeline has no such move since, nothing was done.
 */
export async function lookAtMove(
  context: ToolContext,
  o: { returnId: bigint; to: ReturnState; kind: string; since: Date },
): Promise<Verdict<Return>> {
  const happened = await happenedSince(context, o);
  return async () => {
    const now = await findReturn(context, { case: 'returnId', value: o.returnId });
    if (now.state === o.to) return now;
    if (happened === false) return undefined;
    throw new OutcomeUnknown('the return with get_return_timeline');
  };
}

/**
 * Whether something was surely not changed since then, by the time at which it was last changed. That may
 * be the time at which the change began, so what is close to it proves nothing.
 */
export function isUnchangedSince(updatedAt: Timestamp | undefined, since: Date): boolean {
  return isBefore(updatedAt, new Date(since.getTime() - BEGUN_TO_STORED_MS));
}

/** Both are cut or rounded to milliseconds: the same one is not before. */
function isBefore(time: Timestamp | undefined, other: Date): boolean {
  return time !== undefined && timestampDate(time).getTime() < other.getTime();
}
