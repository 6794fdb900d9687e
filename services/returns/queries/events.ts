import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import type {
  CountEventsRequest,
  ReadEventsRequest,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { callerShape, parseInput, requiredText, time } from '../../platform/values/input.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';

/**
 * Maximum number of rows that one page scans. Rows with other triggers count, so the search for a rare trigger takes
 * limited time.
 */
const SCANNED_ROWS = 5_000;
/** Maximum size of the events on a page. An event above it gets a page of its own. Bytes. */
const PAGE_BYTES = 8 * 1024 * 1024;
const DEFAULT_PAGE = 100;
const MAX_PAGE = 200;
/** Maximum time span of one request. Events are stored for fewer days. */
const MAX_DAYS = 40;
const COUNTED = 100_000;
const COUNT_SCANNED_ROWS = 1_000_000;
const DAY_MS = 86_400_000;

const span = {
  ...callerShape,
  triggers: z
    .array(requiredText(100))
    .min(1, 'must have at least one entry')
    .max(20, 'must have at most 20 entries'),
  from: time.optional(),
  to: time.optional(),
};
const countInput = z.object(span);
const readInput = z.object({
  ...span,
  cursor: z.string(),
  pageSize: z
    .int()
    .refine((value) => value >= 0 && value <= MAX_PAGE, `must be from 1 to ${MAX_PAGE}`)
    .transform((value) => value || DEFAULT_PAGE),
});
/**
 * The position in a cursor: a day, and a position in this day. The year is not 0, because PostgreSQL has no such year.
 */
const cursorParts = z.tuple([z.iso.date().regex(/^(?!0000)/), z.string().regex(/^\d{1,18}$/)]);

/**
 * Reads stored events of a shop, as they were published and in the order in which they were stored. A page stops at its
 * limit, at 8 MiB or at 5,000 scanned rows.
 *
 * @throws DomainError INVALID_ARGUMENT (also for an invalid cursor).
 */
export async function readEvents(
  pool: pg.Pool,
  request: ReadEventsRequest,
): Promise<{ events: Uint8Array[]; nextCursor: string }> {
  const input = parseInput(readInput, request);
  const { from, to } = spanOf(input);
  const [day, position] = decodeCursor(input.cursor, cursorParts) ?? [null, '0'];
  const { rows } = await pool.query<PageRow>(PAGE, [
    input.shopId,
    from,
    to,
    day,
    position,
    input.triggers,
    input.pageSize,
  ]);
  const events = rows.filter((row) => row.value !== null && row.isIncluded);
  const isCut = rows.some((row) => row.value !== null && !row.isIncluded);
  const last = isCut ? events.at(-1) : rows.at(-1);
  const isMore = isCut || rows.at(-1)?.isScanFull === true;
  return {
    events: events.flatMap(({ value }) => value ?? []),
    nextCursor: isMore && last ? encodeCursor([last.day, last.position.toString()]) : '',
  };
}

interface PageRow {
  readonly day: string;
  readonly position: bigint;
  /** The event. Null in the last row, which only says to which position the page was scanned. */
  readonly value: Buffer | null;
  readonly isIncluded: boolean;
  readonly isScanFull: boolean;
}

const PAGE = `
with scanned as materialized (
  select day, position, trigger, created_at, octet_length(value) as bytes
    from events
   where shop_id = $1 and (day, position) > (coalesce($4::date, '0001-01-01'), $5::bigint)
     and day >= greatest(($2::timestamptz at time zone 'utc')::date, $4::date)
     and day <= ($3::timestamptz at time zone 'utc')::date
   order by day, position limit ${SCANNED_ROWS}
), matching as (
  select day, position, sum(bytes) over w - bytes < ${PAGE_BYTES} and row_number() over w <= $7 as fits
    from scanned
   where trigger = any($6::text[]) and created_at >= $2 and created_at < $3
  window w as (order by day, position)
   limit $7 + 1
)
select w.day::text as day, w.position, case when w.fits then e.value else '' end as value,
       w.fits as "isIncluded", false as "isScanFull"
  from matching w
  join events e on e.shop_id = $1 and e.day = w.day and e.position = w.position
 union all
(select day::text, position, null, false, (select count(*) = ${SCANNED_ROWS} from scanned)
   from scanned order by scanned.day desc, scanned.position desc limit 1)
 order by 1, 2, 3 nulls last`;

/**
 * Counts the stored events of a shop in a time span, up to 100,000. Scans at most the oldest million rows.
 *
 * @throws DomainError INVALID_ARGUMENT.
 */
export async function countEvents(pool: pg.Pool, request: CountEventsRequest) {
  const input = parseInput(countInput, request);
  const { from, to } = spanOf(input);
  const { rows } = await pool.query<CountRow>(COUNT, [input.shopId, from, to, input.triggers]);
  const [row] = rows;
  return {
    count: Math.min(row?.count ?? 0, COUNTED),
    more: (row?.count ?? 0) > COUNTED || (row?.scanned ?? 0) > COUNT_SCANNED_ROWS,
    ...(row?.oldest && { oldestAt: timestampFromDate(row.oldest) }),
    ...(row?.newest && { newestAt: timestampFromDate(row.newest) }),
  };
}

interface CountRow {
  readonly count: number;
  readonly scanned: number;
  readonly oldest: Date | null;
  readonly newest: Date | null;
}

const COUNT = `
with scanned as materialized (
  select trigger, created_at from events
   where shop_id = $1 and day between ($2::timestamptz at time zone 'utc')::date
                                  and ($3::timestamptz at time zone 'utc')::date
   order by day, position limit ${COUNT_SCANNED_ROWS} + 1
), matching as (
  select created_at from scanned
   where trigger = any($4::text[]) and created_at >= $2 and created_at < $3
   limit ${COUNTED} + 1
)
select count(*)::integer as count, min(created_at) as oldest, max(created_at) as newest,
       (select count(*)::integer from scanned) as scanned
  from matching`;

function spanOf(o: { from?: Date | undefined; to?: Date | undefined }): { from: Date; to: Date } {
  if (!o.from) throw invalidField('from', 'is required');
  if (!o.to) throw invalidField('to', 'is required');
  if (!(o.from < o.to)) throw invalidField('to', 'must be after from');
  if (o.to.getTime() - o.from.getTime() > MAX_DAYS * DAY_MS) {
    throw invalidField('to', `must be within ${MAX_DAYS} days of from`);
  }
  return { from: o.from, to: o.to };
}
