import { z } from 'zod';
import {
  COMMENT_MAX,
  FLAG_REASONS_MAX,
  SHORT_TEXT_MAX,
} from '../../../services/contract/limits.ts';
import { requiredText, text, typed } from '../../../services/contract/resources/fields.ts';
import { flagReturn as flag } from '../../actions/review.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool } from '../tool.ts';
import { changedReturn, changedReturnView } from '../views/changed-return.ts';

export const flagReturn = defineTool({
  name: 'flag_return',
  title: 'Flag return for review',
  description:
    'Use this when a person must look at an open return before it is processed. The return goes into review. unflag_return ends the review.',
  hints: {
    readOnly: { is: false, because: 'The return goes into review.' },
    destructive: { is: false, because: 'The tool unflag_return undoes it, and nothing is lost.' },
    idempotent: { is: true, because: 'A return in review stays as it is. A repeat is rejected.' },
    openWorld: { is: false, because: 'It changes a record of this service.' },
  },
  input: z.strictObject({
    return_id: returnId,
    reasons: z
      .array(requiredText({ max: SHORT_TEXT_MAX }), { error: typed('a list of texts') })
      .min(1, { error: 'must have at least 1 entry' })
      .max(FLAG_REASONS_MAX, { error: `must have at most ${FLAG_REASONS_MAX} entries` })
      .describe('Why a person must look at the return, in a few words each'),
    comment: text({ max: COMMENT_MAX }).optional().describe('A comment, for the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: changedReturn,
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, reasons, comment }) {
    const changed = await flag(context, {
      returnId: BigInt(return_id),
      reasons,
      comment,
      idempotencyKey: context.callId,
    });
    return changedReturnView(changed);
  },
});
