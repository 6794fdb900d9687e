import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { LabelStatusSchema, ReturnStateSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  type SearchReturnsResponse,
  SearchReturnsRequest_Sort as Sort,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { ReturnsListQuery } from '../../services/contract/resources/return-list.ts';
import type { RETURN_STATES } from '../../services/contract/vocabulary.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { type ActionContext, callerOf } from './context.ts';

const STATE = enumText(ReturnStateSchema);

/** The filters and the page of a search. An absent filter matches every return. */
export interface ReturnsQuery {
  /**
   * A complete order name or return id, each with or without `#`, a complete SKU, tracking number or e-mail address, or
   * a part of an item's title or of the shopper's name.
   */
  readonly query?: string | undefined;
  readonly states?: readonly (typeof RETURN_STATES)[number][] | undefined;
  /** Earliest time of creation. Inclusive. */
  readonly createdFrom?: Date | undefined;
  /** Latest time of creation. Exclusive. */
  readonly createdTo?: Date | undefined;
  readonly includeArchived: boolean;
  readonly flaggedOnly?: boolean | undefined;
  readonly sku?: string | undefined;
  readonly destinationId?: bigint | undefined;
  /** True: orders by the last change, newest first. Otherwise orders by the submission, newest first. */
  readonly byChange?: boolean | undefined;
  readonly limit: number;
  /** The cursor from the previous page; absent for the first page. */
  readonly cursor?: string | undefined;
}

/**
 * Returns a page of the shop's returns, newest first, and the number of matches (counted up to 10,000). The returns
 * lack their notes, descriptions, images and uploads.
 */
export function searchReturns(
  context: ActionContext,
  search: ReturnsQuery,
): Promise<SearchReturnsResponse> {
  // No view of search results shows the long texts (notes, descriptions, images, uploads).
  const request = { ...callerOf(context), ...filtersOf(search), withoutLongTexts: true };
  return context.services.returns.searchReturns(request);
}

function filtersOf(search: ReturnsQuery) {
  const { createdFrom, createdTo } = search;
  return {
    query: search.query ?? '',
    states: (search.states ?? []).map((state) => STATE.fromText(state)),
    ...(createdFrom && { createdFrom: timestampFromDate(createdFrom) }),
    ...(createdTo && { createdTo: timestampFromDate(createdTo) }),
    includeArchived: search.includeArchived,
    flaggedOnly: search.flaggedOnly ?? false,
    sku: search.sku ?? '',
    destinationId: search.destinationId ?? 0n,
    sort: search.byChange ? Sort.UPDATED_DESC : Sort.UNSPECIFIED,
    pageSize: search.limit,
    cursor: search.cursor ?? '',
  };
}

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
