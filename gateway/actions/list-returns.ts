import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { LabelStatusSchema, ReturnStateSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  type SearchReturnsResponse,
  SearchReturnsRequest_Sort as Sort,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { ReturnsListQuery } from '../../services/contract/resources/returns-query.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf } from './context.ts';

const STATE = enumText(ReturnStateSchema);
const LABEL_STATUS = enumText(LabelStatusSchema);
const SORTS: Readonly<Record<ReturnsListQuery['sort'], Sort>> = {
  '-created_at': Sort.CREATED_DESC,
  created_at: Sort.CREATED_ASC,
  '-updated_at': Sort.UPDATED_DESC,
  updated_at: Sort.UPDATED_ASC,
};
const ARCHIVED: Readonly<Record<NonNullable<ReturnsListQuery['archived']>, Archived>> = {
  exclude: Archived.EXCLUDE,
  include: Archived.INCLUDE,
  only: Archived.ONLY,
};

/** Returns a page of summaries of the shop's returns. Rejects with INVALID_ARGUMENT for an invalid cursor. */
export function listReturns(
  context: ActionContext,
  list: ReturnsListQuery,
): Promise<SearchReturnsResponse> {
  const { archived, createdFrom, createdTo, updatedFrom, updatedTo } = list;
  return context.services.returns.searchReturns({
    ...callerOf(context),
    query: list.query,
    states: list.states.map(STATE.fromText),
    labelStatuses: list.labelStatuses.map(LABEL_STATUS.fromText),
    archived: archived ? ARCHIVED[archived] : Archived.UNSPECIFIED,
    ...(createdFrom && { createdFrom: timestampFromDate(createdFrom) }),
    ...(createdTo && { createdTo: timestampFromDate(createdTo) }),
    ...(updatedFrom && { updatedFrom: timestampFromDate(updatedFrom) }),
    ...(updatedTo && { updatedTo: timestampFromDate(updatedTo) }),
    destinationId: list.destinationId ?? 0n,
    sort: SORTS[list.sort],
    pageSize: list.limit,
    cursor: list.cursor,
    summaries: true,
  });
}
