import type { ServiceImpl } from '@connectrpc/connect';
import type {
  ListReturnsRequest,
  ReturnsService,
} from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { SEARCH_TEXT_MAX } from '../../../services/contract/limits.ts';
import {
  LABEL_STATUSES,
  RETURN_OUTCOMES,
  RETURN_STATES,
} from '../../../services/contract/vocabulary.ts';
import { createDestinationNames } from '../../actions/destination-names.ts';
import { findReturn } from '../../actions/returns.ts';
import { type ReturnsQuery, searchSummaries } from '../../actions/search-returns.ts';
import { addNote, getTimeline } from '../../actions/timeline.ts';
import { callOf } from '../call.ts';
import { filterId, idOf, keyOf, pageSizeOf, timeOf, upTo, wordOf } from '../fields.ts';
import { possibleActions } from '../possible-actions.ts';
import { checkOf } from '../return-check.ts';
import { reviewComment } from '../review-comment.ts';
import { returnView } from '../views/return.ts';
import { timelineEntryView } from '../views/return-records.ts';
import { summaryView } from '../views/return-summary.ts';
import { fraudReportMethods } from './fraud-reports.ts';
import { inspectionMethods } from './inspections.ts';
import { returnChanges, type ShowReturn } from './return-changes.ts';

/** The word of the filter for returns without a label. */
const NO_LABEL = 'none';

/** Shows the shop's returns and changes them. */
export function returnsService(): ServiceImpl<typeof ReturnsService> {
  const destinationNames = createDestinationNames();
  const show: ShowReturn = async (call, ret) => {
    const [name, check, comment] = await Promise.all([
      destinationNames(call.context, ret.destinationId),
      checkOf(call, ret),
      reviewComment(call, ret),
    ]);
    const possible = possibleActions(call.session.role, ret, check);
    return returnView(ret, { destinationName: name ?? '', possible, check, comment });
  };
  return {
    ...returnReads(show),
    ...timelineMethods(),
    ...fraudReportMethods(),
    ...returnChanges(show),
    ...inspectionMethods(show),
  };
}

type Methods = Partial<ServiceImpl<typeof ReturnsService>>;

function returnReads(show: ShowReturn) {
  return {
    async listReturns(request, context) {
      const found = await searchSummaries(callOf(context).context, queryOf(request));
      const { summaries, nextCursor, total } = found;
      return { returns: summaries.map(summaryView), nextCursor, total };
    },

    async getReturn({ returnId }, context) {
      const call = callOf(context);
      const value = idOf(returnId, 'return');
      return {
        return: await show(call, await findReturn(call.context, { case: 'returnId', value })),
      };
    },
  } satisfies Methods;
}

function queryOf(request: ListReturnsRequest): ReturnsQuery {
  const labels = request.labelStatuses.map((status) =>
    wordOf('label_statuses', status, [...LABEL_STATUSES, NO_LABEL]),
  );
  return {
    query: upTo('text', request.text, SEARCH_TEXT_MAX),
    states: request.states.map((state) => wordOf('states', state, RETURN_STATES)),
    createdFrom: timeOf('from', request.from),
    createdTo: timeOf('to', request.to),
    includeArchived: true,
    flaggedOnly: request.flagged,
    fraudReportedOnly: request.fraudReported,
    destinationId: filterId('destination_id', request.destinationId),
    labelStatuses: labels.filter((status) => status !== NO_LABEL),
    withoutLabel: labels.includes(NO_LABEL),
    outcomes: request.outcomes.map((outcome) => wordOf('outcomes', outcome, RETURN_OUTCOMES)),
    limit: pageSizeOf(request.pageSize),
    cursor: request.cursor,
  };
}

function timelineMethods() {
  return {
    async listTimeline({ returnId, pageSize, cursor }, context) {
      const call = callOf(context);
      const page = await getTimeline(call.context, {
        returnId: idOf(returnId, 'return'),
        limit: pageSizeOf(pageSize),
        cursor,
        role: call.session.role,
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
  } satisfies Methods;
}
