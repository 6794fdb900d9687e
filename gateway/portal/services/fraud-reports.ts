import { Code, type ServiceImpl } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { ReturnsService } from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import { FRAUD_CATEGORIES } from '../../../services/contract/vocabulary.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { createFraudReport, getFraudReport, listFraudCategories } from '../../actions/fraud.ts';
import { findReturn } from '../../actions/returns.ts';
import { searchReturns } from '../../actions/search-returns.ts';
import { callOf, type PortalCall } from '../call.ts';
import { portalError } from '../errors.ts';
import { idOf, keyOf, optionalWord, upTo } from '../fields.ts';
import { fraudReportView } from '../views/return-records.ts';

/** The methods about fraud reports of returns. */
export function fraudReportMethods() {
  return {
    async getFraudReport({ returnId }, context) {
      const call = callOf(context);
      const id = idOf(returnId, 'return');
      const [report, shopper] = await Promise.all([
        getFraudReport(call.context, id).catch(absentWhen(ErrorReason.FRAUD_REPORT_NOT_FOUND)),
        shopperOf(call, id).catch(absentWhen(ErrorReason.RETURN_NOT_FOUND)),
      ]);
      return { ...(report && { report: fraudReportView(report) }), ...(shopper && { shopper }) };
    },

    async listFraudCategories(_request, context) {
      const categories = await listFraudCategories(callOf(context).context);
      return {
        categories: categories.map(({ id, title, commentRequired }) => ({
          name: id,
          description: title,
          commentRequired,
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

/** Handles an error: undefined for one with this reason. */
function absentWhen(reason: ErrorReason): (error: unknown) => undefined {
  return (error) => {
    if (reasonOf(error) !== reason) throw error;
    return undefined;
  };
}

/** The numbers of the shopper's returns in this shop; undefined when the e-mail address is unknown or redacted. */
async function shopperOf({ context }: PortalCall, id: bigint) {
  const { customer } = await findReturn(context, { case: 'returnId', value: id });
  const query = customer?.email ?? '';
  if (query === '') return undefined;
  const search = { query, includeArchived: true, limit: 1 };
  const [all, reported] = await Promise.all([
    searchReturns(context, search),
    searchReturns(context, { ...search, fraudReportedOnly: true }),
  ]);
  return { email: query, returns: all.total, fraudReported: reported.total };
}
