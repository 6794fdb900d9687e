import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SearchReturnsRequest_Archived as Archived } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { param, raw, type Sql, sql } from '../../platform/sql.ts';
import { labelStatusText, outcomeText, stateText } from '../store/texts.ts';
import type { SearchInput } from './search-input.ts';
import { behind, NEWEST_FIRST, orderBy, type Place, type Sorting } from './sorting.ts';

/** Escapes the special characters of `like`. */
const ESCAPED = raw(String.raw`'([\\%_])', '\\\1', 'g'`);

/** An index on trigrams finds no shorter text. */
const NAME_MIN = 3;

/** An order name with and without `#`: people often leave it out. */
const namesOf = (query: string): readonly string[] =>
  query.startsWith('#') ? [query, query.slice(1)] : [query, `#${query}`];

/**
 * The ids of returns that match a query: the whole order name with or without `#`, e-mail address or tracking number,
 * or a part of a title or of the shopper's name. Each part uses its own index; PostgreSQL uses none of them for one
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
       and lower(coalesce(customer_first_name, '') || ' ' || coalesce(customer_last_name, '')) ${contained}`;
  return sql`
    select id from returns where shop_id = ${shop} and order_name = any(${namesOf(input.query)}::text[])
    union
    select id from returns
     where shop_id = ${shop} and customer_email is not null and lower(customer_email) = lower(${query})
    union
    select return_id from labels
     where shop_id = ${shop} and tracking_number <> '' and tracking_number = ${query}
    union
    select return_id from return_lines
     where shop_id = ${shop} and removed_at is null and lower(title) ${contained}${
       input.query.length < NAME_MIN ? sql`` : byName
     }`;
}

/** The ids of returns with a line item of an SKU. */
function withSku({ shopId, sku }: SearchInput): Sql {
  return sql`
    select distinct return_id as id from return_lines
     where shop_id = ${shopId} and removed_at is null and sku <> '' and sku = ${sku}`;
}

/** The ids that the texts of a search select; undefined when it has no text. */
function candidates(input: SearchInput): Sql | undefined {
  if (input.query === '') return input.sku === '' ? undefined : withSku(input);
  return input.sku === ''
    ? named(input)
    : sql`select id from (${named(input)}) named intersect select id from (${withSku(input)}) of_sku`;
}

/**
 * The filters of returns `r` by times, destination and fraud report. A filter that is absent is not in the statement.
 * `store/next-revision.ts` says which changes set `updated_at`.
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
 * The states that the results of a search may have; none when its filters exclude each other. Exactly the closed
 * returns are archived, so this is also the filter of archived returns.
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

/** All filters on returns `r`, except the texts. */
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

/** The returns `r` that the texts of a search select; all returns when it has none. */
function source(input: SearchInput): Sql {
  const ids = candidates(input);
  if (!ids) return sql`returns r`;
  return sql`(${ids}) candidate join returns r on r.shop_id = ${input.shopId} and r.id = candidate.id`;
}

/** A part of a sorted list. */
export interface Part {
  readonly sorting: Sorting;
  /** The part begins behind this place; undefined: at the start. */
  readonly after: Place | undefined;
  readonly limit: number;
}

/** Reads `id` and `at`, the time of the order, of the returns of one part of the results, in order. */
export function matchingPage(input: SearchInput, part: Part): Sql {
  return input.query === '' && input.sku === '' ? pageByIndex(input, part) : pageOf(input, part);
}

/** Texts select few returns, which are sorted. */
function pageOf(input: SearchInput, { sorting, after, limit }: Part): Sql {
  return sql`
  select r.id, r.${raw(sorting.column)} as at
    from ${source(input)}
   where ${conditions(input)}
     ${behind(after, sorting)}
   ${orderBy('r', sorting.column, sorting)} limit ${limit}`;
}

/**
 * For each state, each outcome and each label status that are filtered, reads at most `limit` returns in the order of
 * an index, and merges them. One scan over all states would read every return of other states: most returns of a shop
 * are closed.
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

/** A part of the returns: what the statement joins for it, and the condition for the returns `r` of the part. */
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

/** Returns whose newest label has one of the statuses, and those without a label, have indexes of their own. */
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

/** Counts the returns that match, up to `max`, as `total`. Without texts it reads indexes in their order. */
export function matchingCount(input: SearchInput, max: number): Sql {
  const matches =
    input.query === '' && input.sku === ''
      ? pagesByIndex(input, { sorting: NEWEST_FIRST, after: undefined, limit: max })
      : sql`select from ${source(input)} where ${conditions(input)}`;
  return sql`
  select count(*)::int as total from (select from (${matches}) matches limit ${raw(max)}) counted`;
}
