import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { reasonOf } from '../../services/platform/errors.ts';
import { findReturn } from '../actions/returns.ts';
import type { ToolContext } from './tool.ts';

/**
 * Does what moves a return into a state. When an earlier call with the same key may have done it
 * already, and the state forbids doing it again, the return that is in that state is the answer.
 */
export async function moveReturn(
  context: ToolContext,
  o: { returnId: bigint; to: ReturnState; move: () => Promise<Return> },
): Promise<Return> {
  try {
    return await o.move();
  } catch (error) {
    if (!context.isResumed || reasonOf(error) !== ErrorReason.STATE_FORBIDS) throw error;
    const now = await findReturn(context, { case: 'returnId', value: o.returnId });
    if (now.state === o.to) return now;
    throw error;
  }
}
