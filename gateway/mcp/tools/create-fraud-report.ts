import { z } from 'zod';
import { FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import { choice, text } from '../../../services/contract/resources/fields.ts';
import { FRAUD_CATEGORIES } from '../../../services/contract/vocabulary.ts';
import { blank } from '../../../services/platform/text.ts';
import { createFraudReport as create } from '../../actions/fraud.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { asIn } from '../result-schema.ts';
import { defineTool, ToolError } from '../tool.ts';
import { reportOutput, reportOutputView } from '../views/fraud-report.ts';

export const createFraudReport = defineTool({
  name: 'create_fraud_report',
  title: 'Create fraud report',
  description:
    'Use this when the user wants to report a return as fraud. A return has at most one report. A report cannot be changed or removed: let the user confirm first. It does not flag or cancel the return.',
  hints: {
    readOnly: { is: false, because: 'It records a report.' },
    destructive: {
      is: false,
      because: 'It only adds a report. It changes and deletes nothing.',
    },
    idempotent: { is: true, because: 'A return has at most one report. A repeat is rejected.' },
    openWorld: { is: false, because: "It changes only this service's own records." },
  },
  input: z.strictObject({
    return_id: returnId,
    category: choice(FRAUD_CATEGORIES)
      .optional()
      .describe('list_fraud_categories returns their titles'),
    comment: text({ max: FRAUD_COMMENT_MAX })
      .optional()
      .describe('What was seen; required when the category is other'),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ report: asIn('get_fraud_report', reportOutput.shape.report) }),
  subject: ({ return_id }) => String(return_id),
  async run(context, { return_id, category, comment }) {
    if (category === 'other' && blank(comment ?? '')) {
      throw new ToolError('comment is required when category is other: say what was seen.');
    }
    const body = { category, comment };
    return reportOutputView(await create(context, BigInt(return_id), body, context.callId));
  },
});
