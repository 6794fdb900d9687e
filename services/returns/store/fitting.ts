import { toBinary } from '@bufbuild/protobuf';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LONG_TEXT_BYTES } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { MAX_MESSAGE_BYTES } from '../../platform/rpc/limits.ts';

/** The size of a line item in a response without its texts: amounts, names and tags. Bytes. */
const LINE_BYTES = 1_000;

/**
 * Maximum size of the line items and uploads in one response, as JSON. It is small, because several calls are in memory
 * at the same time. Bytes.
 */
export const ANSWER_BYTES = 8 * 1024 * 1024;

/**
 * Maximum size of the line items on one page of a list, as JSON. A line item takes about two thousand bytes, and 500
 * line items cost as much as ten reads of one return. Bytes.
 */
export const LIST_BYTES = 1024 * 1024;

const longBytes = (column: string) =>
  `case when octet_length(${column}) > ${LONG_TEXT_BYTES} then octet_length(${column}) else 0 end`;

/**
 * SQL for the long parts of return `r`: a row for each inspection and upload with its stored size (`bytes`), and with
 * the size of its long texts (`long_bytes`). PostgreSQL knows both without reading the parts. The stored size is an
 * estimate, which is too low when the images compress well.
 *
 * It finds inspections by ids in an array, because a join searches the index of both tables once for each line item.
 * Without `offset 0`, PostgreSQL would make the array three times.
 */
export const LONG_PARTS = `
  (select array(
     select l.id from return_lines l
      where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null) as ids offset 0) lines
  cross join lateral (
    select coalesce(octet_length(c.note), 0) + octet_length(c.description) + pg_column_size(c.images) as bytes,
           ${longBytes('c.note')} + ${longBytes('c.description')} as long_bytes
      from line_conditions c where c.shop_id = r.shop_id and c.line_item_id = any(lines.ids)
    union all
    select coalesce(octet_length(d.note), 0) + pg_column_size(d.images), ${longBytes('d.note')}
      from line_dispositions d where d.shop_id = r.shop_id and d.line_item_id = any(lines.ids)
    union all
    select octet_length(u.url), 0 from uploads u where u.shop_id = r.shop_id and u.return_id = r.id) part`;

/** SQL for the stored size of the long parts of return `r`. */
export const STORED_BYTES = `(select coalesce(sum(part.bytes), 0) from ${LONG_PARTS})`;

/**
 * Returns a statement that selects those returns that fit into $3 bytes together, in the order of the ids in $2. When
 * $4 is true, it always selects the first return. The database measures the returns, so that it does not send those
 * that do not fit.
 *
 * @param returns the statement that reads the returns.
 */
export const fittingStatement = (returns: string) => `with found as materialized (${returns})
select * from (
  select found.*, row_number() over w as place,
         sum(octet_length(lines::text) + ${LINE_BYTES} * json_array_length(lines)
           + octet_length(uploads::text)) over w as bytes_so_far
    from found
  window w as (order by array_position($2::bigint[], id))) measured
 where bytes_so_far <= $3 or ($4 and place = 1)
 order by place`;

const inspectionBytes = (of: string) =>
  `coalesce(octet_length(${of}.note), 0) + coalesce(octet_length(array_to_string(${of}.images, '')), 0)`;
// The sum is never larger than the JSON of the same parts. To make this JSON takes a third of a second for one of the
// largest returns. A page of fifty would be late, and most of it would be discarded.
const FITTING_IDS = `
select id from (
  select r.id, row_number() over w as place,
         sum(coalesce(inspected.bytes, 0) + coalesce(uploaded.bytes, 0)) over w as bytes_so_far
    from returns r
   cross join lateral (
     select sum(${inspectionBytes('c')} + coalesce(octet_length(c.description), 0)
              + ${inspectionBytes('d')}) as bytes
       from return_lines l
       left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
       left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
      where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null) inspected
   cross join lateral (
     select sum(octet_length(u.url)) as bytes from uploads u
      where u.shop_id = r.shop_id and u.return_id = r.id) uploaded
   where r.shop_id = $1 and r.id = any($2::bigint[])
  window w as (order by array_position($2::bigint[], r.id))) measured
 where bytes_so_far <= $3 or place = 1
 order by place`;

/**
 * Returns the first of `ids` whose notes, images and uploads fit into `maxBytes` together; at least one. It must be
 * called before the returns are read.
 */
export async function fittingIds(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
  maxBytes = ANSWER_BYTES,
): Promise<readonly bigint[]> {
  if (ids.length <= 1) return ids;
  const { rows } = await db.query<{ id: bigint }>(FITTING_IDS, [shopId, ids, maxBytes]);
  return rows.map((row) => row.id);
}

/** Maximum number of returns in one part of {@link fittingParts}. */
const PART = 50;

/**
 * Divides ids of returns into parts, in their order. The returns of a part fit into one response ({@link fittingIds}).
 * Their size is read when the caller requests the part. The caller must have locked the returns.
 */
export async function* fittingParts(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): AsyncGenerator<readonly bigint[]> {
  let left = ids;
  while (left.length > 0) {
    const part = await fittingIds(db, shopId, left.slice(0, PART));
    yield part;
    left = left.slice(part.length);
  }
}

/** The size that tags and lengths add to each return in a response. Bytes. */
const FRAME_BYTES = 16;

/**
 * Returns those returns that fit into one response, in order. Larger ones are skipped. A change of thirty line items
 * may have thirty whole returns in its response, and must not fail because the response is too large.
 */
export function fittingReturns(returns: readonly Return[], maxBytes = MAX_MESSAGE_BYTES): Return[] {
  let left = maxBytes;
  return returns.filter((one) => {
    const size = toBinary(ReturnSchema, one).length + FRAME_BYTES;
    const fits = size <= left;
    if (fits) left -= size;
    return fits;
  });
}
