import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type {
  ReturnSummary,
  SearchReturnsRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { parseInput } from '../../platform/input.ts';
import type { ListFilters } from '../../platform/list-cursor.ts';
import { onlyRow } from '../../platform/only-row.ts';
import { type Sql, sql, unnamed } from '../../platform/sql.ts';
import type { ReturnReader } from '../store/return-reader.ts';
import { matchingCount, matchingPage } from './matching.ts';
import { cursorBehind, placeIn } from './place-cursor.ts';
import { filtersOf, type SearchInput, searchInput } from './search-input.ts';
import { orderBy, type Place, type Sorting, sortingOf } from './sorting.ts';
import { summariesOf } from './summaries.ts';

/** Maximum number of matches that are counted. */
const MAX_TOTAL = 10_000;

export interface SearchDeps {
  readonly pool: pg.Pool;
  readonly reader: ReturnReader;
}

export interface FoundReturns {
  readonly returns: readonly Return[];
  readonly summaries: readonly ReturnSummary[];
  readonly nextCursor: string;
  readonly total: number;
  /** Ids of those `returns` that were reported as fraud. */
  readonly fraudReportedIds: readonly bigint[];
}

/**
 * Lists returns; `matching.ts` says what each filter means. The newest return is first, unless the request has another
 * order. Returns that are submitted while a caller reads pages do not move its cursor.
 *
 * A page stops at its limit, or before the first return that does not fit, because a page of the largest returns would
 * be larger than a gRPC message. Every page has at least one return, so that there is a cursor for the next page.
 * Summaries always fit. They are read with one statement, and are counted only with details, by the same statement.
 *
 * The query is a whole order name or return id, each with or without `#`, a whole SKU, tracking number or e-mail
 * address, or a part of a line item's title or of the shopper's name. Archived returns are included only when the request asks for them: by
 * `archived`, by the flag, or by the state closed.
 *
 * @throws DomainError INVALID_ARGUMENT (also for an invalid cursor, and for one of other filters or another order).
 */
export async function searchReturns(
  { pool, reader }: SearchDeps,
  request: SearchReturnsRequest,
): Promise<FoundReturns> {
  const input = parseInput(searchInput, request);
  const sorting = sortingOf(input.sort);
  const list = { sorting, filters: filtersOf(input) };
  const after = placeIn(input.cursor, list);
  if (request.summaries) {
    const count = request.details ? matchingCount(input, MAX_TOTAL) : undefined;
    return searchSummaries(pool, input, { ...list, after, count });
  }
  const limit = input.pageSize + 1;
  const found = await pool.query<{ id: bigint; isReported: boolean }>(
    unnamed(marked(input.shopId, matchingPage(input, { sorting, after, limit }), sorting)),
  );
  const ids = found.rows.slice(0, input.pageSize).map((row) => row.id);
  const returns = request.withoutLongTexts
    ? await reader.listed(input.shopId, ids)
    : await reader.page(input.shopId, ids);
  const hasMore = found.rows.length > returns.length;
  const nextCursor = hasMore ? cursorBehind(placeOf(returns.at(-1), sorting), list) : '';
  const shown = found.rows.slice(0, returns.length);
  const fraudReportedIds = shown.filter(({ isReported }) => isReported).map(({ id }) => id);
  const page = { returns, summaries: [], nextCursor, fraudReportedIds };
  // The first page has all matches, so they need not be counted.
  if (!after && nextCursor === '') return { ...page, total: ids.length };
  return { ...page, total: await count(pool, input) };
}

async function searchSummaries(
  pool: pg.Pool,
  input: SearchInput,
  o: {
    readonly sorting: Sorting;
    readonly filters: ListFilters;
    readonly after: Place | undefined;
    readonly count: Sql | undefined;
  },
): Promise<FoundReturns> {
  const page = matchingPage(input, { ...o, limit: input.pageSize + 1 });
  const { sorting, count } = o;
  const found = await summariesOf(pool, { shopId: input.shopId, page, sorting, count });
  const summaries = found.summaries.slice(0, input.pageSize);
  const hasMore = found.summaries.length > summaries.length;
  const nextCursor = hasMore ? cursorBehind(placeOf(summaries.at(-1), o.sorting), o) : '';
  return { returns: [], summaries, nextCursor, total: found.total, fraudReportedIds: [] };
}

/**
 * SQL that adds to each id of a page whether the return was reported as fraud. The count of matches is without this,
 * because it reads only indexes.
 */
function marked(shopId: bigint, page: Sql, sorting: Sorting): Sql {
  return sql`
  select page.id, r.fraud_reported_at is not null as "isReported"
    from (${page}) page
    join returns r on r.shop_id = ${shopId} and r.id = page.id
   ${orderBy('page', 'at', sorting)}`;
}

async function count(pool: pg.Pool, input: SearchInput): Promise<number> {
  const result = await pool.query<{ total: number }>(unnamed(matchingCount(input, MAX_TOTAL)));
  return onlyRow(result).total;
}

function placeOf(
  last: Pick<Return, 'id' | 'createdAt' | 'updatedAt'> | undefined,
  { column }: Sorting,
): Place | undefined {
  const at = column === 'created_at' ? last?.createdAt : last?.updatedAt;
  return last && at && { id: last.id, at: timestampDate(at) };
}
