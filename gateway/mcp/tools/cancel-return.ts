import { z } from 'zod';
import { COMMENT_MAX } from '../../../services/contract/limits.ts';
import { text } from '../../../services/contract/resources/fields.ts';
import { cancelReturn as cancelled } from '../../actions/review.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool } from '../tool.ts';
import { changedReturn, changedReturnView } from '../views/changed-return.ts';

export const cancelReturn = defineTool({
  name: 'cancel_return',
  title: 'Cancel return',
  description:
    'Use this when the user has asked to cancel a return that is open or in review. This cannot be undone: name the return and let the user confirm first. An open label request is cancelled too. If its exchange order was already placed, the order is cancelled first: the return then stays open and is processing; read it again later.',
  hints: {
    readOnly: { is: false, because: 'It cancels the return.' },
    destructive: { is: true, because: 'A cancelled return cannot be opened again.' },
    idempotent: { is: true, because: 'A cancelled return stays as it is.' },
    openWorld: {
      is: true,
      because:
        'The label provider is notified that an open label request is cancelled, and the commerce provider cancels the exchange order.',
    },
  },
  input: z.strictObject({
    return_id: returnId,
    reason: text({ max: COMMENT_MAX }).optional().describe('The reason, for the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: asIn('flag_return', changedReturn),
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, reason }) {
    const cancel = { returnId: BigInt(return_id), reason, idempotencyKey: context.callId };
    return changedReturnView(await cancelled(context, cancel));
  },
});
