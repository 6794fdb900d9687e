import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import { choice, text } from '../../../services/contract/resources/fields.ts';
import { fraudReport } from '../../../services/contract/resources/fraud-report.ts';
import { fraudReportView } from '../../../services/contract/views/objects.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { FRAUD_CATEGORIES } from '../../../services/contract/vocabulary.ts';
import { reasonOf } from '../../../services/platform/values/errors.ts';
import { blank } from '../../../services/platform/values/text.ts';
import {
  createFraudReport as create,
  getFraudReport as get,
  listFraudCategories as list,
} from '../../actions/fraud.ts';
import { findReturn } from '../../actions/returns.ts';
import { idempotencyKey, returnId, UNTRUSTED } from '../schema/fields.ts';
import { asIn, undescribed } from '../schema/result-schema.ts';
import { defineTool, readOnlyHints, type ToolContext, ToolError } from '../tool.ts';

export const listFraudCategories = defineTool({
  name: 'list_fraud_categories',
  right: 'reportFraud',
  title: 'List fraud categories',
  description:
    'Use this when you are about to create a fraud report and need to know which categories there are, and which of them need a comment.',
  hints: readOnlyHints('the fixed list of categories'),
  input: z.strictObject({}),
  output: z.strictObject({
    categories: z.array(
      z.strictObject({ category: z.string(), title: z.string(), comment_required: z.boolean() }),
    ),
  }),
  sample: () => ({}),
  async run(context) {
    const categories = await list(context);
    return {
      categories: categories.map(({ id, title, commentRequired }) => ({
        category: id,
        title,
        comment_required: commentRequired,
      })),
    };
  },
});

const { comment, ...fields } = fraudReport.shape;

const reportOutput = z.strictObject({
  report: z.strictObject({
    ...undescribed(fields),
    reported_by: z.string().nullable().describe('Name of the author'),
    untrusted_data: z.strictObject(undescribed({ comment })).describe(UNTRUSTED),
  }),
});

function reportOutputView(report: Report): z.output<typeof reportOutput> {
  const { comment: text, ...rest } = fraudReportView(report);
  const reported_by = textOrNull(report.reportedBy?.name);
  return { report: { ...rest, reported_by, untrusted_data: { comment: text } } };
}

export const createFraudReport = defineTool({
  name: 'create_fraud_report',
  right: 'reportFraud',
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
  sample: ({ openReturn }) => ({ return_id: openReturn, category: 'item-is-worn' }),
  costly: ({ reportedReturn }) => ({ return_id: reportedReturn, category: 'other', comment: 'x' }),
  async run(context, { return_id, category, comment }) {
    if (category === 'other' && blank(comment ?? '')) {
      throw new ToolError('comment is required when category is other: say what was seen.');
    }
    const body = { category, comment };
    return reportOutputView(await create(context, BigInt(return_id), body, context.callId));
  },
});

export const getFraudReport = defineTool({
  name: 'get_fraud_report',
  right: 'seeFraudReports',
  title: 'Get fraud report',
  description: 'Use this when you need to know whether and why a return was reported as fraud.',
  hints: readOnlyHints("a return's fraud report"),
  input: z.strictObject({ return_id: returnId }),
  output: reportOutput,
  sample: ({ reportedReturn }) => ({ return_id: reportedReturn }),
  run: async (context, { return_id }) =>
    reportOutputView(await reportOf(context, BigInt(return_id))),
});

/**
 * Reads the report. If there is none, checks whether the return exists, because the next step of the assistant depends
 * on it.
 */
async function reportOf(context: ToolContext, id: bigint): Promise<Report> {
  try {
    return await get(context, id);
  } catch (error) {
    if (reasonOf(error) !== ErrorReason.FRAUD_REPORT_NOT_FOUND) throw error;
    await findReturn(context, { case: 'returnId', value: id });
    throw error;
  }
}
