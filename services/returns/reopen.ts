import { type Return as Details, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../platform/postgres.ts';
import { Return } from './return.ts';
import type { Change } from './store/transition.ts';
import { findObstacle } from './submit/returnable.ts';

/**
 * Opens a return again that expired before its goods came: what lies on the dock can be settled. One whose lines
 * are returned elsewhere by now stays expired, and its timeline says why. Of a return that is not expired nothing
 * changes.
 *
 * @param why what happened, for the timeline.
 * @returns what to add to the change that the caller makes under the return's lock.
 */
export async function reopening(
  tx: Queryable,
  current: Details,
  why: string,
): Promise<Required<Pick<Change<unknown>, 'stateChanges' | 'timeline'>>> {
  if (current.state !== ReturnState.EXPIRED) return { stateChanges: [], timeline: [] };
  const obstacle = await findObstacle(tx, { ...current, orderId: current.order?.id ?? 0n });
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
