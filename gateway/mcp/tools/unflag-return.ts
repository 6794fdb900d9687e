import { z } from 'zod';
import {
  COMMENT_MAX,
  FLAG_REASONS_MAX,
  SHORT_TEXT_MAX,
} from '../../../services/contract/limits.ts';
import { requiredText, text } from '../../../services/contract/resources/fields.ts';
import { unflagReturn as unflag } from '../../actions/review.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool } from '../tool.ts';
import { changedReturn, changedReturnView } from '../views/changed-return.ts';

export const unflagReturn = defineTool({
  name: 'unflag_return',
  title: 'Take return out of review',
  description:
    'Use this when a person has looked at a flagged return and decided that it may be processed. The return is open again. Do not use it only because process_return rejected the return.',
  hints: {
    readOnly: { is: false, because: 'It ends the review of the return.' },
    destructive: {
      is: false,
      because: 'The tool flag_return undoes it, and the timeline keeps the reasons of the flag.',
    },
    idempotent: { is: true, because: 'An open return stays as it is. A repeat is rejected.' },
    openWorld: { is: false, because: 'It changes a record of this service.' },
  },
  input: z.strictObject({
    return_id: returnId,
    reasons: z
      .array(requiredText({ max: SHORT_TEXT_MAX }))
      .max(FLAG_REASONS_MAX, { error: `must have at most ${FLAG_REASONS_MAX} entries` })
      .optional()
      .describe('Why the return may be processed, in a few words each'),
    comment: text({ max: COMMENT_MAX }).optional().describe('A comment, for the timeline'),
    idempotency_key: idempotencyKey,
  }),
  output: asIn('flag_return', changedReturn),
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, reasons = [], comment }) {
    const changed = await unflag(context, {
      returnId: BigInt(return_id),
      reasons,
      comment,
      idempotencyKey: context.callId,
    });
    return changedReturnView(changed);
  },
});
