import { Code, type ServiceImpl } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { ReturnsService } from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { FRAUD_COMMENT_MAX } from '../../../services/contract/limits.ts';
import {
  FRAUD_CATEGORIES,
  LABEL_STATUSES,
  RETURN_OUTCOMES,
  RETURN_STATES,
} from '../../../services/contract/vocabulary.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { createDestinationNames } from '../../actions/destination-names.ts';
import { createFraudReport, getFraudReport, listFraudCategories } from '../../actions/fraud.ts';
import { findReturn } from '../../actions/returns.ts';
import { addNote, getTimeline } from '../../actions/timeline.ts';
import { callOf } from '../call.ts';
import { portalError } from '../errors.ts';
import {
  idOf,
  keyOf,
  optionalId,
  optionalWord,
  pageSizeOf,
  timeOf,
  upTo,
  wordOf,
} from '../fields.ts';
import { findReturns, NO_LABEL } from '../find-returns.ts';
import { possibleActions } from '../possible-actions.ts';
import { returnSummaryView, returnView } from '../views/return.ts';
import { processingEffects } from '../views/return-effects.ts';
import { fraudReportView, timelineEntryView } from '../views/return-records.ts';
import { returnChanges, type ShowReturn } from './return-changes.ts';

/** Maximum length of a search text. Characters. */
const MAX_TEXT = 320;

/** Shows the shop's returns and changes them. */
export function returnsService(): ServiceImpl<typeof ReturnsService> {
  const destinationNames = createDestinationNames();
  const show: ShowReturn = async (call, ret) =>
    returnView(ret, {
      destinationName: (await destinationNames(call.context, ret.destinationId)) ?? '',
      possible: possibleActions(call.session.role, ret),
      processingDoes: processingEffects(ret),
    });
  return {
    ...returnChanges(show),

    async listReturns(request, context) {
      const call = callOf(context);
      const query = {
        query: upTo('text', request.text, MAX_TEXT),
        states: request.states.map((state) => wordOf('states', state, RETURN_STATES)),
        createdFrom: timeOf('from', request.from),
        createdTo: timeOf('to', request.to),
        includeArchived: true,
        destinationId: optionalId(request.destinationId),
        limit: pageSizeOf(request.pageSize),
        cursor: request.cursor,
      };
      const found = await findReturns(call.context, query, {
        labelStatuses: request.labelStatuses.map((status) =>
          wordOf('label_statuses', status, [...LABEL_STATUSES, NO_LABEL]),
        ),
        outcomes: request.outcomes.map((outcome) => wordOf('outcomes', outcome, RETURN_OUTCOMES)),
      });
      const { nextCursor, total } = found;
      return { returns: found.returns.map(returnSummaryView), nextCursor, total };
    },

    async getReturn({ returnId }, context) {
      const call = callOf(context);
      const value = idOf(returnId, 'return');
      return {
        return: await show(call, await findReturn(call.context, { case: 'returnId', value })),
      };
    },

    async listTimeline({ returnId, pageSize, cursor }, context) {
      const call = callOf(context);
      const page = await getTimeline(call.context, {
        returnId: idOf(returnId, 'return'),
        limit: pageSizeOf(pageSize),
        cursor,
      });
      return { entries: page.entries.map(timelineEntryView), nextCursor: page.nextCursor };
    },

    async addNote({ returnId, text, idempotencyKey }, context) {
      const call = callOf(context);
      const note = {
        returnId: idOf(returnId, 'return'),
        text,
        idempotencyKey: keyOf(call, idempotencyKey),
      };
      return { entry: timelineEntryView(await addNote(call.context, note)) };
    },

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
  };
}
