import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { blank, FRAUD_CATEGORIES, FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import { choice, text } from '../../../services/contract/resources/fields.ts';
import type { FraudReportBody } from '../../../services/contract/resources/fraud-report.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { createFraudReport as create, getFraudReport } from '../../actions/fraud.ts';
import { idempotencyKey, returnId } from '../fields.ts';
import { defineTool, type ToolContext, ToolRefusal } from '../tool.ts';
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
    return reportOutputView(await report(context, BigInt(return_id), { category, comment }));
  },
});

/** Creates the report. For a resumed call, an existing report that the earlier call may have made is the result. */
async function report(
  context: ToolContext,
  returnId: bigint,
  body: FraudReportBody,
): Promise<Report> {
  try {
    return await create(context, returnId, body);
  } catch (error) {
    const exists = reasonOf(error) === ErrorReason.FRAUD_REPORT_EXISTS;
    if (!context.isResumed || !exists) throw error;
    const made = await getFraudReport(context, returnId);
    if (made.reportedBy?.id === context.actor.id && made.category === body.category) return made;
    throw error;
  }
}
