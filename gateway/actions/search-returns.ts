import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { ReturnStateSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { SearchReturnsResponse } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { RETURN_STATES } from '../../services/contract/vocabulary.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { type ActionContext, callerOf } from './context.ts';

const STATE = enumText(ReturnStateSchema);

/** The filters and the page of a search. Absent filters do not restrict it. */
export interface ReturnsQuery {
  /** Order name, tracking number or e-mail address as a whole, or part of a title. */
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
 * A page of the shop's returns, newest first, and the number of matches (counted up to 10,000). The returns have no
 * notes, descriptions, images and uploads.
 */
export function searchReturns(
  context: ActionContext,
  wanted: ReturnsQuery,
): Promise<SearchReturnsResponse> {
  const { createdFrom, createdTo } = wanted;
  return context.services.returns.searchReturns({
    ...callerOf(context),
    query: wanted.query ?? '',
    states: (wanted.states ?? []).map((state) => STATE.fromText(state)),
    ...(createdFrom && { createdFrom: timestampFromDate(createdFrom) }),
    ...(createdTo && { createdTo: timestampFromDate(createdTo) }),
    includeArchived: wanted.includeArchived,
    flaggedOnly: wanted.flaggedOnly ?? false,
    sku: wanted.sku ?? '',
    destinationId: wanted.destinationId ?? 0n,
    pageSize: wanted.limit,
    cursor: wanted.cursor ?? '',
    // Neither the summary of a return nor the summary of its lines contains them.
    withoutLongTexts: true,
  });
}
