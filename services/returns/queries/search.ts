import { timestampDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { SearchReturnsRequest } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { callerShape, parseInput, text, time } from '../../platform/input.ts';
import { param, raw, type Sql, sql, unnamed } from '../../platform/sql.ts';
import { optionalId } from '../fields.ts';
import { loadListed, loadPage } from '../store/load.ts';
import { stateText } from '../store/texts.ts';
import { decodeCursor, encodeCursor, pageSize } from './cursor.ts';

/** The maximum of the count of matches. */
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
  sku: text(SHORT_TEXT_MAX),
  destinationId: optionalId,
});
type Search = z.output<typeof search>;

/** Creation time in milliseconds since 1970, and id, of the last return of the previous page. */
const cursorParts = z.tuple([z.string().regex(/^-?\d{1,14}$/), z.string().regex(/^\d{1,16}$/)]);

/** Escapes the special characters of `like`. */
const ESCAPED = raw(String.raw`'([\\%_])', '\\\1', 'g'`);

/**
 * Returns that match a query: the whole order name, e-mail address or tracking number, or a part of a title. Each part
 * uses its own index; PostgreSQL uses none of them for one condition with `or`.
 */
function isNamed(input: Search): Sql {
  const shop = param(input.shopId);
  const query = param(input.query);
  return sql`
  r.id in (
    select id from returns where shop_id = ${shop} and order_name = ${query}
    union all
    select id from returns
     where shop_id = ${shop} and customer_email is not null and lower(customer_email) = lower(${query})
    union all
    select return_id from labels
     where shop_id = ${shop} and tracking_number <> '' and tracking_number = ${query}
    union all
    select return_id from return_lines
     where shop_id = ${shop} and removed_at is null
       and lower(title) like '%' || regexp_replace(lower(${query}), ${ESCAPED}) || '%')`;
}

function matches(input: Search): Sql {
  const shop = param(input.shopId);
  const states = param(input.states.map(stateText.toText));
  const from = param(input.createdFrom);
  const to = param(input.createdTo);
  const sku = param(input.sku);
  const destinationId = param(input.destinationId);
  const isArchivedToo = input.includeArchived || input.states.includes(ReturnState.CLOSED);
  return sql`
  r.shop_id = ${shop}
  and (cardinality(${states}::text[]) = 0 or r.state = any(${states}::text[]))
  and (${from}::timestamptz is null or r.created_at >= ${from})
  and (${to}::timestamptz is null or r.created_at < ${to})
  and (${isArchivedToo} or r.archived_at is null)
  and (not ${input.flaggedOnly} or r.state = 'review')
  and (${sku} = '' or exists (select from return_lines l
                               where l.shop_id = ${shop} and l.return_id = r.id and l.removed_at is null
                                 and l.sku = ${sku}))
  and (${destinationId}::bigint = 0 or r.destination_id = ${destinationId})
  ${input.query === '' ? sql`` : sql`and ${isNamed(input)}`}`;
}

/**
 * Lists returns, newest first. New returns do not move the cursor. A page stops at its limit, or before the first
 * return that does not fit, because a page of the largest returns would be larger than a message. Every page has at
 * least one return, so that there is a cursor for the next page.
 *
 * The query is a whole order name, tracking number or e-mail address, or a part of a line item's title. Archived
 * returns are included only if requested, by the flag or by the state closed.
 *
 * @throws DomainError INVALID_ARGUMENT (also for an invalid cursor).
 */
export async function searchReturns(
  pool: pg.Pool,
  request: SearchReturnsRequest,
): Promise<{ returns: readonly Return[]; nextCursor: string; total: number }> {
  const input = parseInput(search, request);
  const [createdAt, lastId] = decodeCursor(input.cursor, cursorParts) ?? [null, null];
  const after = createdAt === null ? null : new Date(Number(createdAt));
  const found = await pool.query<{ id: bigint }>(
    unnamed(sql`
     select r.id from returns r
      where ${matches(input)}
        ${after === null ? sql`` : sql`and (r.created_at, r.id) < (${after}::timestamptz, ${lastId}::bigint)`}
      order by r.created_at desc, r.id desc limit ${input.pageSize + 1}`),
  );
  const ids = found.rows.slice(0, input.pageSize).map((row) => row.id);
  const returns = request.withoutLongTexts
    ? await loadListed(pool, input.shopId, ids)
    : await loadPage(pool, input.shopId, ids);
  const nextCursor = found.rows.length > returns.length ? cursorAfter(returns.at(-1)) : '';
  // The first page has all matches, so no count is needed.
  if (after === null && nextCursor === '') return { returns, nextCursor, total: ids.length };
  return { returns, nextCursor, total: await count(pool, input) };
}

async function count(pool: pg.Pool, input: Search): Promise<number> {
  const { rows } = await pool.query<{ total: number }>(
    unnamed(sql`select count(*)::int as total
       from (select from returns r where ${matches(input)} limit ${raw(MAX_TOTAL)}) matches`),
  );
  return rows[0]?.total ?? 0;
}

function cursorAfter(last: Return | undefined): string {
  if (!last?.createdAt) return '';
  return encodeCursor([`${timestampDate(last.createdAt).getTime()}`, `${last.id}`]);
}
