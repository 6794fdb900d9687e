import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import {
  LabelStatus,
  Outcome,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  type ReturnSummary,
  type SearchReturnsRequest,
  SearchReturnsRequest_Sort as Sort,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SEARCH_TEXT_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { callerShape, parseInput, text, time } from '../../platform/values/input.ts';
import type { ListFilters } from '../../platform/values/list-cursor.ts';
import { normalForm } from '../../platform/values/text.ts';
import { optionalId } from '../fields.ts';
import type { ReturnReader } from '../store/return-reader.ts';
import { labelStatusText, outcomeText, stateText } from '../store/texts.ts';
import {
  behind,
  cursorBehind,
  NEWEST_FIRST,
  orderBy,
  type Place,
  pageSize,
  placeIn,
  type Sorting,
  sortingOf,
} from './cursor.ts';
import { summariesOf } from './summaries.ts';

/** Maximum number of matches that are counted. */
const MAX_TOTAL = 10_000;

interface SearchDeps {
  readonly pool: pg.Pool;
  readonly reader: ReturnReader;
}

interface FoundReturns {
  readonly returns: readonly Return[];
  readonly summaries: readonly ReturnSummary[];
  readonly nextCursor: string;
  readonly total: number;
  /** Ids of those `returns` that were reported as fraud. */
  readonly fraudReportedIds: readonly bigint[];
}

/**
 * Lists returns; `filtersOf` says what each filter means. The newest return is first, unless the request has another
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

/** SQL arguments that escape the special characters of `like`. */
const ESCAPED = raw(String.raw`'([\\%_])', '\\\1', 'g'`);

/** Minimum length of a searched text. An index on trigrams finds no shorter one. */
const NAME_MIN = 3;

/** The number of a return, as the portal shows it: its id. */
const RETURN_NUMBER = /^#?([1-9]\d{0,15})$/;

/** Returns an order name with and without `#`, because people often leave it out. */
const namesOf = (query: string): readonly string[] =>
  query.startsWith('#') ? [query, query.slice(1)] : [query, `#${query}`];

/**
 * SQL for the ids of returns that match a query: a whole order name or number of a return with or without `#`, a whole
 * e-mail address, tracking number or SKU, or a part of a title or of the shopper's name. Texts are compared in their
 * normal form; the query is in this form. Each of these uses its own index. PostgreSQL would use no index for one
 * condition with `or`.
 */
function named(input: SearchInput): Sql {
  const shop = param(input.shopId);
  const query = param(input.query);
  const contained = sql`like '%' || regexp_replace(lower(${query}), ${ESCAPED}) || '%'`;
  const byName = sql`
    union
    select id from returns
     where shop_id = ${shop} and (customer_first_name is not null or customer_last_name is not null)
       and lower(normal_form(coalesce(customer_first_name, '') || ' ' || coalesce(customer_last_name, ''))) ${contained}`;
  const number = RETURN_NUMBER.exec(input.query)?.[1];
  const byNumber = sql`
    union
    select id from returns where shop_id = ${shop} and id = ${BigInt(number ?? 0)}`;
  return sql`
    select id from returns where shop_id = ${shop} and normal_form(order_name) = any(${namesOf(input.query)}::text[])
    union
    select id from returns
     where shop_id = ${shop} and customer_email is not null and lower(normal_form(customer_email)) = lower(${query})
    union
    select return_id from labels
     where shop_id = ${shop} and tracking_number <> '' and normal_form(tracking_number) = ${query}
    union
    select return_id from return_lines
     where shop_id = ${shop} and removed_at is null and sku <> '' and normal_form(sku) = ${query}
    union
    select return_id from return_lines
     where shop_id = ${shop} and removed_at is null and lower(normal_form(title)) ${contained}${
       input.query.length < NAME_MIN ? sql`` : byName
     }${number === undefined ? sql`` : byNumber}`;
}

/** SQL for the ids of returns that have a line item with this SKU. */
function withSku({ shopId, sku }: SearchInput): Sql {
  return sql`
    select distinct return_id as id from return_lines
     where shop_id = ${shopId} and removed_at is null and sku <> '' and normal_form(sku) = ${sku}`;
}

/** SQL for the ids that the texts of a search select; undefined when the search has no text. */
function candidates(input: SearchInput): Sql | undefined {
  if (input.query === '') return input.sku === '' ? undefined : withSku(input);
  return input.sku === ''
    ? named(input)
    : sql`select id from (${named(input)}) named intersect select id from (${withSku(input)}) of_sku`;
}

/**
 * SQL conditions for returns `r` by times, destination and fraud report. The statement has no condition for a filter
 * that the search does not use. `store/next-revision.ts` says which changes set `updated_at`.
 */
function filters(input: SearchInput): Sql {
  const { createdFrom, createdTo, updatedFrom, updatedTo, destinationId, fraudReportedOnly } =
    input;
  return joined([
    sql``,
    ...(createdFrom ? [sql`and r.created_at >= ${createdFrom}`] : []),
    ...(createdTo ? [sql`and r.created_at < ${createdTo}`] : []),
    ...(updatedFrom ? [sql`and r.updated_at >= ${updatedFrom}`] : []),
    ...(updatedTo ? [sql`and r.updated_at < ${updatedTo}`] : []),
    ...(destinationId === 0n ? [] : [sql`and r.destination_id = ${destinationId}`]),
    ...(fraudReportedOnly ? [sql`and r.fraud_reported_at is not null`] : []),
  ]);
}

function joined(pieces: readonly Sql[], by = ' '): Sql {
  return pieces.reduce((all, piece) => sql`${all}${raw(by)}${piece}`);
}

const ALL_STATES = [
  ReturnState.OPEN,
  ReturnState.REVIEW,
  ReturnState.CLOSED,
  ReturnState.CANCELLED,
  ReturnState.EXPIRED,
] as const;

/**
 * Returns the states that results of a search may have. There is none when its filters exclude each other. Exactly the
 * closed returns are archived, so these states are also the filter for archived returns.
 */
function statesOf(input: SearchInput): readonly ReturnState[] {
  const requested = input.states.length === 0 ? ALL_STATES : new Set(input.states);
  return [...requested].filter((state) => {
    if (input.flaggedOnly && state !== ReturnState.REVIEW) return false;
    return state === ReturnState.CLOSED ? mayBeArchived(input) : input.archived !== Archived.ONLY;
  });
}

function mayBeArchived({ archived, includeArchived, states }: SearchInput): boolean {
  if (archived !== Archived.UNSPECIFIED) return archived !== Archived.EXCLUDE;
  return includeArchived || states.includes(ReturnState.CLOSED);
}

const stateTexts = (input: SearchInput) => statesOf(input).map(stateText.toText);
const labelTexts = (input: SearchInput) => input.labelStatuses.map(labelStatusText.toText);
const outcomeTexts = (input: SearchInput) => input.outcomes.map(outcomeText.toText);

/** SQL for all filters on returns `r`, except the texts. */
function conditions(input: SearchInput): Sql {
  const isLabelled = sql`r.label_status = any(${labelTexts(input)}::text[])`;
  const isUnlabelled = sql`r.label_status is null`;
  const byLabel = [
    ...(input.labelStatuses.length > 0 ? [isLabelled] : []),
    ...(input.withoutLabel ? [isUnlabelled] : []),
  ];
  return joined([
    sql`r.shop_id = ${input.shopId} and r.state = any(${stateTexts(input)}::text[])`,
    ...(byLabel.length === 0 ? [] : [sql`and (${joined(byLabel, ' or ')})`]),
    ...(input.outcomes.length === 0
      ? []
      : [sql`and r.outcome = any(${outcomeTexts(input)}::text[])`]),
    filters(input),
  ]);
}

/** SQL for the returns `r` that the texts of a search select, or for all returns when it has no text. */
function source(input: SearchInput): Sql {
  const ids = candidates(input);
  if (!ids) return sql`returns r`;
  return sql`(${ids}) candidate join returns r on r.shop_id = ${input.shopId} and r.id = candidate.id`;
}

/** A part of a sorted list. */
interface Part {
  readonly sorting: Sorting;
  /** The place after which the part begins; undefined for the start. */
  readonly after: Place | undefined;
  readonly limit: number;
}

/**
 * SQL for `id` and `at` of the returns in one part of the results, in order. `at` is the time by which the list is
 * sorted.
 */
function matchingPage(input: SearchInput, part: Part): Sql {
  return input.query === '' && input.sku === '' ? pageByIndex(input, part) : pageOf(input, part);
}

/** SQL for a page of a search with texts. Texts select few returns, so these are sorted. */
function pageOf(input: SearchInput, { sorting, after, limit }: Part): Sql {
  return sql`
  select r.id, r.${raw(sorting.column)} as at
    from ${source(input)}
   where ${conditions(input)}
     ${behind(after, sorting)}
   ${orderBy('r', sorting.column, sorting)} limit ${limit}`;
}

/**
 * SQL for a page of a search without texts. For each combination of state, outcome and label status in the filters, it
 * reads at most `limit` returns in the order of an index. Then it merges them. One scan over all states would read
 * every return in another state, and most returns of a shop are closed.
 */
function pageByIndex(input: SearchInput, part: Part): Sql {
  const { sorting, limit } = part;
  return sql`
  select page.id, page.at from (${pagesByIndex(input, part)}) page
   ${orderBy('page', 'at', sorting)} limit ${limit}`;
}

function pagesByIndex(input: SearchInput, { sorting, after, limit }: Part): Sql {
  const column = raw(sorting.column);
  const outcome = outcomePart(input);
  const pages = labelParts(input).map(
    (label) => sql`
   select page.id, page.at
     from unnest(${stateTexts(input)}::text[]) as of_state (state) ${outcome.from} ${label.from}
    cross join lateral (
      select r.id, r.${column} as at
        from returns r
       where r.shop_id = ${input.shopId} and r.state = of_state.state
         ${outcome.isOfPart} ${label.isOfPart} ${filters(input)} ${behind(after, sorting)}
       ${orderBy('r', sorting.column, sorting)} limit ${limit}) page`,
  );
  return joined(pages, ' union all ');
}

/** One of these combinations: what the statement joins for it, and the condition for its returns `r`. */
interface IndexedPart {
  readonly from: Sql;
  readonly isOfPart: Sql;
}

const ALL: IndexedPart = { from: sql``, isOfPart: sql`` };

function outcomePart(input: SearchInput): IndexedPart {
  if (input.outcomes.length === 0) return ALL;
  return {
    from: sql`cross join unnest(${outcomeTexts(input)}::text[]) as of_outcome (outcome)`,
    isOfPart: sql`and r.outcome = of_outcome.outcome`,
  };
}

/**
 * The combinations by label status. Returns whose newest label has a status have one index, and returns without a label
 * have another.
 */
function labelParts(input: SearchInput): readonly IndexedPart[] {
  const labelled = {
    from: sql`cross join unnest(${labelTexts(input)}::text[]) as of_label (status)`,
    isOfPart: sql`and r.label_status = of_label.status`,
  };
  const unlabelled = { from: sql``, isOfPart: sql`and r.label_status is null` };
  const parts = [
    ...(input.labelStatuses.length > 0 ? [labelled] : []),
    ...(input.withoutLabel ? [unlabelled] : []),
  ];
  return parts.length > 0 ? parts : [ALL];
}

/** SQL that counts the matching returns as `total`, up to `max`. Without texts it reads indexes in their order. */
function matchingCount(input: SearchInput, max: number): Sql {
  const matches =
    input.query === '' && input.sku === ''
      ? pagesByIndex(input, { sorting: NEWEST_FIRST, after: undefined, limit: max })
      : sql`select from ${source(input)} where ${conditions(input)}`;
  return sql`
  select count(*)::int as total from (select from (${matches}) matches limit ${raw(max)}) counted`;
}

/** Maximum number of values of one filter. A longer list is rejected before its values are compared. */
const VALUES_MAX = 20;

/** A filter by values of an enumeration, each once. Its zero means that a value is missing. */
function valuesOf<T extends Readonly<Record<string, string | number>>>(enumeration: T) {
  const value = z.enum(enumeration, 'is unknown').refine((one) => one !== 0, 'is required');
  return z
    .array(value)
    .max(VALUES_MAX, `must hold at most ${VALUES_MAX}`)
    .transform((values) => [...new Set(values)]);
}

/** The filters that select returns. */
const FILTERS = {
  /** In the normal form, in which texts are compared. */
  query: text(SEARCH_TEXT_MAX).transform(normalForm),
  states: valuesOf(ReturnState),
  createdFrom: time.optional(),
  createdTo: time.optional(),
  updatedFrom: time.optional(),
  updatedTo: time.optional(),
  includeArchived: z.boolean(),
  archived: z.enum(Archived, 'is unknown'),
  flaggedOnly: z.boolean(),
  fraudReportedOnly: z.boolean(),
  sku: text(SHORT_TEXT_MAX).transform(normalForm),
  destinationId: optionalId,
  labelStatuses: valuesOf(LabelStatus),
  /** Returns without a label match, too; without label statuses only they match. */
  withoutLabel: z.boolean(),
  outcomes: valuesOf(Outcome),
};

/** The schema of a search request. */
const searchInput = z.object({
  ...callerShape,
  ...FILTERS,
  pageSize,
  cursor: z.string(),
  sort: z.enum(Sort, 'is unknown'),
});
type SearchInput = z.output<typeof searchInput>;

/** Returns the filters to which a cursor of the search belongs, including the shop. */
function filtersOf(input: SearchInput): ListFilters {
  const { shopId } = input;
  const filters = Object.entries(input).filter(([name]) => name in FILTERS);
  return { shopId, ...Object.fromEntries(filters) };
}
