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
   * A whole order name with or without `#`, tracking number or e-mail address, or a part of a title or of the shopper's
   * name.
   */
  readonly query?: string | undefined;
  readonly states?: readonly (typeof RETURN_STATES)[number][] | undefined;
  /** Inclusive. */
  readonly createdFrom?: Date | undefined;
  /** Exclusive. */
  readonly createdTo?: Date | undefined;
  readonly includeArchived: boolean;
  readonly flaggedOnly?: boolean | undefined;
  /** Only returns that were reported as fraud. */
  readonly fraudReportedOnly?: boolean | undefined;
  readonly sku?: string | undefined;
  readonly destinationId?: bigint | undefined;
  /** Statuses of the newest label. */
  readonly labelStatuses?: readonly (typeof LABEL_STATUSES)[number][] | undefined;
  /** Returns without a label match, too; without `labelStatuses` only they match. */
  readonly withoutLabel?: boolean | undefined;
  readonly outcomes?: readonly (typeof RETURN_OUTCOMES)[number][] | undefined;
  /** In the order of the last change, newest first; otherwise in the order of the submission. */
  readonly byChange?: boolean | undefined;
  readonly limit: number;
  /** The cursor from the previous page; absent for the first page. */
  readonly cursor?: string | undefined;
}

/**
 * Returns a page of the shop's returns, newest first, and the number of matches (counted up to 10,000). The returns have
 * no notes, descriptions, images or uploads.
 */
export function searchReturns(
  context: ActionContext,
  search: ReturnsQuery,
): Promise<SearchReturnsResponse> {
  // The results of a search show none of the long texts.
  const request = { ...callerOf(context), ...filtersOf(search), withoutLongTexts: true };
  return context.services.returns.searchReturns(request);
}

/** The same as {@link searchReturns}, as summaries with their details, which are much smaller than returns. */
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
