import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  LabelStatusSchema,
  OutcomeSchema,
  ReturnStateSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type SearchReturnsResponse,
  SearchReturnsRequest_Sort as Sort,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type {
  LABEL_STATUSES,
  RETURN_OUTCOMES,
  RETURN_STATES,
} from '../../services/contract/vocabulary.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf } from './context.ts';

const STATE = enumText(ReturnStateSchema);
const LABEL_STATUS = enumText(LabelStatusSchema);
const OUTCOME = enumText(OutcomeSchema);

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
  /** Only returns that were reported as fraud. */
  readonly fraudReportedOnly?: boolean | undefined;
  readonly sku?: string | undefined;
  readonly destinationId?: bigint | undefined;
  /** Finds returns whose newest label has one of these statuses. */
  readonly labelStatuses?: readonly (typeof LABEL_STATUSES)[number][] | undefined;
  /** Finds returns without a label: in addition to `labelStatuses`, or alone when those are absent. */
  readonly withoutLabel?: boolean | undefined;
  readonly outcomes?: readonly (typeof RETURN_OUTCOMES)[number][] | undefined;
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

/**
 * The same as {@link searchReturns}, but for summaries with their details. They are much smaller than whole returns.
 */
export function searchSummaries(
  context: ActionContext,
  search: ReturnsQuery,
): Promise<SearchReturnsResponse> {
  const request = { ...callerOf(context), ...filtersOf(search), summaries: true, details: true };
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
    fraudReportedOnly: search.fraudReportedOnly ?? false,
    sku: search.sku ?? '',
    destinationId: search.destinationId ?? 0n,
    labelStatuses: (search.labelStatuses ?? []).map((status) => LABEL_STATUS.fromText(status)),
    withoutLabel: search.withoutLabel ?? false,
    outcomes: (search.outcomes ?? []).map((outcome) => OUTCOME.fromText(outcome.replace('+', '_'))),
    sort: search.byChange ? Sort.UPDATED_DESC : Sort.UNSPECIFIED,
    pageSize: search.limit,
    cursor: search.cursor ?? '',
  };
}
