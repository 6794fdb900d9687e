import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { ReturnStateSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { SearchReturnsResponse } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { RETURN_STATES } from '../../services/contract/vocabulary.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf } from './context.ts';

const STATE = enumText(ReturnStateSchema);

/** The filters and the page of a search. An absent filter matches every return. */
export interface ReturnsQuery {
  /** A whole order name, tracking number or e-mail address, or a part of a title. */
  readonly query?: string | undefined;
  readonly states?: readonly (typeof RETURN_STATES)[number][] | undefined;
  /** Inclusive. */
  readonly createdFrom?: Date | undefined;
  /** Exclusive. */
  readonly createdTo?: Date | undefined;
  readonly includeArchived: boolean;
  readonly flaggedOnly?: boolean | undefined;
  readonly sku?: string | undefined;
  readonly destinationId?: bigint | undefined;
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
  const { createdFrom, createdTo } = search;
  return context.services.returns.searchReturns({
    ...callerOf(context),
    query: search.query ?? '',
    states: (search.states ?? []).map((state) => STATE.fromText(state)),
    ...(createdFrom && { createdFrom: timestampFromDate(createdFrom) }),
    ...(createdTo && { createdTo: timestampFromDate(createdTo) }),
    includeArchived: search.includeArchived,
    flaggedOnly: search.flaggedOnly ?? false,
    sku: search.sku ?? '',
    destinationId: search.destinationId ?? 0n,
    pageSize: search.limit,
    cursor: search.cursor ?? '',
    // The results of a search show none of the long texts.
    withoutLongTexts: true,
  });
}
