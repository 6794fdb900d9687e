import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import {
  type ExpectedLine,
  ExpectedLineSchema,
  type ListExpectedRequest,
} from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { PAGE_DEFAULT, PAGE_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { raw, type Sql, sql, unnamed } from '../../platform/postgres/sql.ts';
import { callerShape, parseInput, text, time } from '../../platform/values/input.ts';
import { bindCursor, placeInCursor } from '../../platform/values/list-cursor.ts';
import { normalForm } from '../../platform/values/text.ts';
import { optionalId } from '../fields.ts';
import { decodeCursor, encodeCursor } from '../queries/cursor.ts';

const filterText = text(SHORT_TEXT_MAX).transform(normalForm);

const page = z.object({
  ...callerShape,
  destinationId: optionalId,
  trackingNumber: filterText,
  orderName: filterText,
  sku: filterText,
  updatedSince: time.optional(),
  pageSize: z
    .int()
    .refine((value) => value >= 0 && value <= PAGE_MAX, `must be from 1 to ${PAGE_MAX}`)
    .transform((value) => value || PAGE_DEFAULT),
  cursor: z.string(),
});
type Page = z.output<typeof page>;

const cursorParts = z.tuple([z.string().regex(/^\d{1,16}$/)]);

interface ExpectedRow {
  readonly return_id: bigint;
  readonly line_item_id: bigint;
  readonly order_name: string;
  readonly sku: string;
  readonly barcode: string;
  readonly title: string;
  readonly expected_quantity: number;
  readonly arrived_quantity: number;
  readonly destination_id: bigint | null;
  readonly tracking_number: string | null;
}

/**
 * Lists line items with units that have not arrived, by ascending id. The column `expected_at` says which these are: the
 * triggers of migration 0003 keep it.
 *
 * @throws DomainError INVALID_ARGUMENT, also for an invalid cursor.
 */
export async function listExpected(
  pool: pg.Pool,
  request: ListExpectedRequest,
): Promise<{ lines: ExpectedLine[]; nextCursor: string }> {
  const input = parseInput(page, request);
  const { shopId, actor: _, pageSize, cursor, ...filters } = input;
  const list = { list: 'expected', shopId, ...filters };
  const [after] = decodeCursor(placeInCursor(cursor, list), cursorParts) ?? ['0'];
  // Planned in each call, because the best index depends on the filters and on how many rows they select.
  const { rows } = await pool.query<ExpectedRow>(unnamed(statement(input, after)));
  const shown = rows.slice(0, pageSize);
  const last = shown.at(-1);
  const next = rows.length > shown.length && last ? encodeCursor([`${last.line_item_id}`]) : '';
  return { lines: shown.map(toLine), nextCursor: bindCursor(next, list) };
}

function statement(input: Page, after: string): Sql {
  const { shopId, pageSize, updatedSince } = input;
  const limit = pageSize + 1;
  const filters = conditions(input);
  if (!updatedSince) return pageOf(sql`l.shop_id = ${shopId}${filters}`, { after, limit });
  // If few returns changed, their line items are read, otherwise all line items in order. The count decides, because
  // PostgreSQL cannot estimate how many of the line items of these returns are expected.
  const isChanged = sql`and r.updated_at >= ${updatedSince}`;
  const few = sql`l.shop_id = ${shopId} and (select count(*) from changed) <= ${FEW}
     and l.return_id = any(array(select id from changed))${filters}`;
  const many = sql`l.shop_id = ${shopId} and (select count(*) from changed) > ${FEW}${filters}`;
  return sql`
with changed as materialized (
  select r.id from returns r
   where r.shop_id = ${shopId} and r.state in ('open', 'review', 'closed') ${isChanged} limit ${FEW + 1}
)
(${pageOf(few, { after, limit })}) union all (${pageOf(many, { after, limit, isChanged })})
 order by line_item_id limit ${limit}`;
}

/** Number of changed returns whose line items are read one return after the other. */
const FEW = 5_000;

/** SQL for a page of the line items `l` with this condition. */
function pageOf(
  condition: Sql,
  o: { readonly after: string; readonly limit: number; readonly isChanged?: Sql },
): Sql {
  // `offset 0` keeps the join in the order of the line items, so that it ends with the page.
  return sql`
select l.return_id, l.id as line_item_id, r.order_name, l.sku, l.barcode, l.title, l.quantity as expected_quantity,
       l.arrived_quantity, r.destination_id,
       (select b.tracking_number from labels b
         where b.shop_id = l.shop_id and b.return_id = l.return_id
         order by b.created_at desc, b.id desc limit 1) as tracking_number
  from return_lines l
 cross join lateral (
       select r.order_name, r.destination_id from returns r
        where r.shop_id = l.shop_id and r.id = l.return_id ${o.isChanged ?? raw('')} offset 0) r
 where ${condition} and l.expected_at is not null and l.id > ${o.after}::bigint
 order by l.id limit ${o.limit}`;
}

/** SQL for the filters on line items `l`. The statement has no condition for a filter that the request does not use. */
function conditions(input: Page): Sql {
  const { shopId, destinationId, trackingNumber, orderName, sku } = input;
  const used = [
    ...(destinationId === 0n ? [] : [sql` and l.expected_at = ${destinationId}`]),
    ...(sku === '' ? [] : [sql` and l.sku <> '' and normal_form(l.sku) = ${sku}`]),
    ...(trackingNumber === ''
      ? []
      : [
          sql` and l.return_id = any(array(
       select b.return_id from labels b
        where b.shop_id = ${shopId} and b.tracking_number <> '' and normal_form(b.tracking_number) = ${trackingNumber}))`,
        ]),
    ...(orderName === ''
      ? []
      : [
          sql` and l.return_id = any(array(
       select n.id from returns n where n.shop_id = ${shopId} and normal_form(n.order_name) = ${orderName}))`,
        ]),
  ];
  return used.reduce((all, one) => sql`${all}${one}`, raw(''));
}

function toLine(row: ExpectedRow): ExpectedLine {
  return create(ExpectedLineSchema, {
    returnId: row.return_id,
    lineItemId: row.line_item_id,
    orderName: row.order_name,
    sku: row.sku,
    barcode: row.barcode,
    title: row.title,
    expectedQuantity: row.expected_quantity,
    arrivedQuantity: row.arrived_quantity,
    destinationId: row.destination_id ?? 0n,
    trackingNumber: row.tracking_number ?? '',
  });
}
