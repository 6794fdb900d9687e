import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { SearchReturnsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { callerShape, parseInput, text, time } from '../../platform/input.ts';
import { optionalId } from '../fields/field.ts';
import { loadListed, loadPage } from '../store/load.ts';
import { stateText } from '../store/texts.ts';
import { decodeCursor, encodeCursor, pageSize } from './cursor.ts';

/** Matches are counted up to here. */
const MAX_TOTAL = 10_000;

const search = z.object({
  ...callerShape,
  query: text(320),
  states: z
    .array(
      z
        .enum(ReturnState, 'is unknown')
        .refine((value) => value !== ReturnState.UNSPECIFIED, 'is required'),
    )
    .max(20, 'must hold at most 20'),
  createdFrom: time.optional(),
  createdTo: time.optional(),
  includeArchived: z.boolean(),
  pageSize,
  cursor: z.string(),
  flaggedOnly: z.boolean(),
  sku: text(191),
  destinationId: optionalId,
});
type Search = z.output<typeof search>;

/** Creation time in milliseconds since 1970, and id, of the last return of the previous page. */
const cursorParts = z.tuple([z.string().regex(/^-?\d{1,14}$/), z.string().regex(/^\d{1,16}$/)]);

/** The query as a pattern for `like`, with its special characters escaped. */
const PART_OF_TITLE = String.raw`'%' || regexp_replace(lower($2), '([\\%_])', '\\\1', 'g') || '%'`;

/**
 * Returns that match a query: the whole order name, e-mail address or tracking number, or a part of a title. Each part
 * uses its own index; PostgreSQL uses none of them for one condition with `or`.
 */
const NAMED = `
  r.id in (
    select id from returns where shop_id = $1 and order_name = $2
    union all
    select id from returns
     where shop_id = $1 and customer_email is not null and lower(customer_email) = lower($2)
    union all
    select return_id from labels
     where shop_id = $1 and tracking_number <> '' and tracking_number = $2
    union all
    select return_id from return_lines
     where shop_id = $1 and removed_at is null and lower(title) like ${PART_OF_TITLE})`;
const ANY = `$2::text = ''`;

const MATCHING = `
  r.shop_id = $1
  and (cardinality($3::text[]) = 0 or r.state = any($3::text[]))
  and ($4::timestamptz is null or r.created_at >= $4)
  and ($5::timestamptz is null or r.created_at < $5)
  and ($6 or r.archived_at is null)
  and (not $7 or r.state = 'review')
  and ($8 = '' or exists (select from return_lines l
                           where l.shop_id = $1 and l.return_id = r.id and l.removed_at is null
                             and l.sku = $8))
  and ($9::bigint = 0 or r.destination_id = $9)`;

function valuesOf(wanted: Search) {
  return [
    wanted.shopId,
    wanted.query,
    wanted.states.map(stateText.toText),
    wanted.createdFrom ?? null,
    wanted.createdTo ?? null,
    wanted.includeArchived || wanted.states.includes(ReturnState.CLOSED),
    wanted.flaggedOnly,
    wanted.sku,
    wanted.destinationId,
  ];
}

/**
 * Lists returns, newest first. New returns do not move the cursor. A page ends after its number of returns, or before
 * the first that does not fit, because a page of the largest returns would be larger than a message. A page has at
 * least one return, so that there is a cursor for the next page.
 *
 * The query matches order name, tracking number or e-mail address as a whole, or a line's title in part. Archived
 * returns are left out unless asked for, by the flag or by naming the state closed.
 *
 * @throws DomainError INVALID_ARGUMENT (also for a cursor that this service did not make).
 */
export async function searchReturns(
  pool: pg.Pool,
  request: SearchReturnsRequest,
): Promise<{ returns: readonly Return[]; nextCursor: string; total: number }> {
  const wanted = parseInput(search, request);
  const [createdAt, lastId] = decodeCursor(wanted.cursor, cursorParts) ?? [null, null];
  const after = createdAt === null ? null : new Date(Number(createdAt));
  const matches = `${MATCHING} and ${wanted.query === '' ? ANY : NAMED}`;
  const found = await pool.query<{ id: bigint }>(
    `select r.id from returns r
      where ${matches}
        and ($10::timestamptz is null or (r.created_at, r.id) < ($10, $11::bigint))
      order by r.created_at desc, r.id desc limit $12`,
    [...valuesOf(wanted), after, lastId, wanted.pageSize + 1],
  );
  const ids = found.rows.slice(0, wanted.pageSize).map((row) => row.id);
  const returns = request.withoutLongTexts
    ? await loadListed(pool, wanted.shopId, ids)
    : await loadPage(pool, wanted.shopId, ids);
  const nextCursor = found.rows.length > returns.length ? cursorAfter(returns.at(-1)) : '';
  // The first page has all matches, so no count is needed.
  if (after === null && nextCursor === '') return { returns, nextCursor, total: ids.length };
  return { returns, nextCursor, total: await count(pool, matches, wanted) };
}

async function count(pool: pg.Pool, matches: string, wanted: Search): Promise<number> {
  const { rows } = await pool.query<{ total: number }>(
    `select count(*)::int as total
       from (select from returns r where ${matches} limit ${MAX_TOTAL}) matches`,
    valuesOf(wanted),
  );
  return rows[0]?.total ?? 0;
}

function cursorAfter(last: Return | undefined): string {
  if (!last?.createdAt) return '';
  return encodeCursor([`${timestampDate(last.createdAt).getTime()}`, `${last.id}`]);
}
