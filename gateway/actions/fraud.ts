import type { Category, Report } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { FraudReportBody } from '../../services/contract/resources/fraud-report.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** Reports a return; at most one report a return. A comment of blanks counts as none. */
export async function createFraudReport(
  context: ActionContext,
  returnId: bigint,
  { category, comment }: FraudReportBody,
): Promise<Report> {
  const answer = await context.services.fraud.createReport({
    ...callerOf(context),
    returnId,
    ...(category && { category }),
    ...(comment && comment.trim() !== '' && { comment }),
  });
  return sent(answer.report, 'report');
}

/** The report of a return. Rejects when the return does not exist, or has none. */
export async function getFraudReport(context: ActionContext, returnId: bigint): Promise<Report> {
  const answer = await context.services.fraud.getReport({ ...callerOf(context), returnId });
  return sent(answer.report, 'report');
}

/** What a report may be about, in a fixed order. */
export async function listFraudCategories(context: ActionContext): Promise<Category[]> {
  return (await context.services.fraud.listCategories(callerOf(context))).categories;
}
