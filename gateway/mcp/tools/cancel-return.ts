import { z } from 'zod';
import { text } from '../../../services/contract/resources/fields.ts';
import { cancelReturn as cancelled } from '../../actions/review.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool } from '../tool.ts';
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
  async run(context, { return_id, reason }) {
    const cancel = { returnId: BigInt(return_id), reason, idempotencyKey: context.callId };
    return changedReturnView(await cancelled(context, cancel));
  },
});
