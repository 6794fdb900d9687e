import { type Return as Details, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../platform/postgres.ts';
import { Return, type StateChange } from './return.ts';
import type { NewTimelineEntry } from './store/timeline-store.ts';
import { findObstacle } from './submit/returnable.ts';

/** The parts of a change that reopen a return. */
interface Reopening {
  readonly stateChanges: readonly StateChange[];
  readonly timeline: readonly NewTimelineEntry[];
}

/**
 * Opens an expired return again, because its goods moved or arrived and must be processed. When another return has its
 * line items already, the return stays expired, and its timeline says why. A return that is not expired does not change.
 *
 * @param why what happened, for the timeline.
 * @returns what to add to the change that the caller makes under the return's lock.
 */
export async function reopening(tx: Queryable, current: Details, why: string): Promise<Reopening> {
  if (current.state !== ReturnState.EXPIRED) return { stateChanges: [], timeline: [] };
  const obstacle = await findObstacle(tx, current);
  if (obstacle) {
    const text = `${why}, but the return stays expired: ${obstacle.message}`;
    const entry = { returnId: current.id, kind: 'return.stays_expired', text };
    return { stateChanges: [], timeline: [entry] };
  }
  const text = `${why}: the return is open again`;
  return {
    stateChanges: [new Return(current).reopen()],
    timeline: [{ returnId: current.id, kind: 'return.reopened', text }],
  };
}
