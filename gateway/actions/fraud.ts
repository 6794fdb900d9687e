import type { Report } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
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
