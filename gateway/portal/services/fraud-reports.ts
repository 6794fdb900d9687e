import { Code, type ServiceImpl } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { ReturnsService } from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import { FRAUD_CATEGORIES } from '../../../services/contract/vocabulary.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { createFraudReport, getFraudReport, listFraudCategories } from '../../actions/fraud.ts';
import { callOf } from '../call.ts';
import { portalError } from '../errors.ts';
import { idOf, keyOf, optionalWord, upTo } from '../fields.ts';
import { fraudReportView } from '../views/return-records.ts';

/** The methods about fraud reports of returns. */
export function fraudReportMethods() {
  return {
    async getFraudReport({ returnId }, context) {
      const call = callOf(context);
      const id = idOf(returnId, 'return');
      const report = await getFraudReport(call.context, id).catch((error: unknown) => {
        if (reasonOf(error) === ErrorReason.FRAUD_REPORT_NOT_FOUND) return undefined;
        throw error;
      });
      return report ? { report: fraudReportView(report) } : {};
    },

    async listFraudCategories(_request, context) {
      const categories = await listFraudCategories(callOf(context).context);
      return {
        categories: categories.map(({ id, title, commentRequired }) => ({
          ...{ name: id, description: title, commentRequired },
        })),
      };
    },

    async createFraudReport({ returnId, category, comment, idempotencyKey }, context) {
      const call = callOf(context);
      const id = idOf(returnId, 'return');
      const body = {
        category: optionalWord('category', category, FRAUD_CATEGORIES) ?? null,
        comment: upTo('comment', comment, FRAUD_COMMENT_MAX),
      };
      if (body.category === null)
        throw portalError(Code.InvalidArgument, 'Choose a category.', 'category');
      const report = await createFraudReport(call.context, id, body, keyOf(call, idempotencyKey));
      return { report: fraudReportView(report) };
    },
  } satisfies Partial<ServiceImpl<typeof ReturnsService>>;
}
