import type {
  Category,
  CreateReportResponse,
  Report,
} from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { FraudReportBody } from '../../services/contract/resources/fraud-report.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** Reports a return as fraud. A return has at most one report. A blank comment counts as absent. */
export async function createFraudReport(
  context: ActionContext,
  returnId: bigint,
  { category, comment }: FraudReportBody,
  idempotencyKey = '',
): Promise<Report> {
  const response = await context.services.fraud.createReport({
    ...callerOf(context),
    returnId,
    idempotencyKey,
    ...(category && { category }),
    ...(comment && comment.trim() !== '' && { comment }),
  });
  noteFraudReport(context, response);
  return sent(response.report, 'report');
}

/** Notes the category for the audit log. The comment may name anybody. */
export function noteFraudReport(
  { noteChanges }: ActionContext,
  { report }: CreateReportResponse,
): void {
  noteChanges?.(changesOf({ category: [undefined, report?.category] }));
}

/** Returns the fraud report of a return. Rejects with NOT_FOUND when the return does not exist or has no report. */
export async function getFraudReport(context: ActionContext, returnId: bigint): Promise<Report> {
  const { report } = await context.services.fraud.getReport({ ...callerOf(context), returnId });
  return sent(report, 'report');
}

/** Returns the categories of reports, in a fixed order. */
export async function listFraudCategories(context: ActionContext): Promise<Category[]> {
  return (await context.services.fraud.listCategories(callerOf(context))).categories;
}
