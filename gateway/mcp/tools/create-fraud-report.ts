import { z } from 'zod';
import { FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import { choice, text } from '../../../services/contract/resources/fields.ts';
import { FRAUD_CATEGORIES } from '../../../services/contract/vocabulary.ts';
import { blank } from '../../../services/platform/text.ts';
import { createFraudReport as create } from '../../actions/fraud.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool, ToolRefusal } from '../tool.ts';
import { reportOutput, reportOutputView } from '../views/fraud-report.ts';

export const createFraudReport = defineTool({
  name: 'create_fraud_report',
  title: 'Create fraud report',
  description:
    'Use this when a person wants a return reported as fraud. A return has at most one report, which cannot be changed or removed: have the person confirm it. It does not flag or cancel the return.',
  hints: {
    readOnly: { is: false, because: 'It records a report.' },
    destructive: {
      is: false,
      because: 'It only adds a report; it cannot be removed, but changes nothing that is there.',
    },
    idempotent: { is: true, because: 'A return is reported once; a repeat is refused.' },
    openWorld: { is: false, because: "It stays in this service's own records." },
  },
  input: z.strictObject({
    return_id: returnId,
    category: choice(FRAUD_CATEGORIES).optional().describe('list_fraud_categories explains them'),
    comment: text({ max: FRAUD_COMMENT_MAX })
      .optional()
      .describe('What was seen; required when the category is other'),
    idempotency_key: idempotencyKey,
  }),
  output: reportOutput,
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, category, comment }) {
    if (category === 'other' && blank(comment ?? '')) {
      throw new ToolRefusal('comment is required when category is other: say what was seen.');
    }
    const body = { category, comment };
    return reportOutputView(await create(context, BigInt(return_id), body, context.callId));
  },
});
