import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { text } from '../../../services/contract/resources/fields.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { findReturn } from '../../actions/returns.ts';
import { cancelReturn as cancel } from '../../actions/review.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool, type ToolContext } from '../tool.ts';
import { changedReturn, changedReturnView } from '../views/changed-return.ts';
import { COMMENT_MAX } from './flag-return.ts';

export const cancelReturn = defineTool({
  name: 'cancel_return',
  title: 'Cancel return',
  description:
    'Use this when a person has asked for a return that is open or in review to be cancelled. This cannot be undone: name the return and have the person confirm first. An open label request is withdrawn.',
  hints: {
    readOnly: { is: false, because: 'The return is cancelled.' },
    destructive: { is: true, because: 'A cancelled return cannot be opened again.' },
    idempotent: { is: true, because: 'A cancelled return stays as it is.' },
    openWorld: {
      is: true,
      because: 'A label request that is open is withdrawn at the label provider.',
    },
  },
  input: z.strictObject({
    return_id: returnId,
    reason: text({ max: COMMENT_MAX }).optional().describe('For the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: changedReturn,
  subject: ({ return_id }) => String(return_id),
  run: async (context, { return_id, reason }) =>
    changedReturnView(await cancelled(context, { returnId: BigInt(return_id), reason })),
});

/**
 * Cancels the return. A resumed call that finds the return cancelled returns it as its result: a return can be
 * cancelled only once and stays cancelled.
 */
async function cancelled(
  context: ToolContext,
  o: { returnId: bigint; reason: string | undefined },
): Promise<Return> {
  try {
    return await cancel(context, o);
  } catch (error) {
    if (!context.isResumed || reasonOf(error) !== ErrorReason.STATE_FORBIDS) throw error;
    const now = await findReturn(context, { case: 'returnId', value: o.returnId });
    if (now.state === ReturnState.CANCELLED) return now;
    throw error;
  }
}
