import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Arrival, ArrivalSchema } from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { named, rowsOf, sql } from '../../platform/postgres/sql.ts';
import type { ReturnRef } from '../return.ts';
import { stateText } from '../store/texts.ts';

/** What arrived of one line item. */
interface NewItem {
  readonly lineItemId: bigint;
  readonly quantity: number;
  readonly damagedQuantity: number;
  readonly note: string;
}

/** What arrived and was not announced. `lineItemId` is the line item of which more arrived; null when none. */
export interface NewUnexpected {
  readonly lineItemId: bigint | null;
  readonly sku: string;
  readonly barcode: string;
  readonly title: string;
  readonly quantity: number;
  readonly note: string;
}

const itemRows = rowsOf<NewItem>({
  line_item_id: ['bigint', (item) => item.lineItemId],
  quantity: ['integer', (item) => item.quantity],
  damaged_quantity: ['integer', (item) => item.damagedQuantity],
  note: ['text', (item) => item.note],
});

const unexpectedRows = rowsOf<NewUnexpected>({
  line_item_id: ['bigint', (item) => item.lineItemId],
  sku: ['text', (item) => item.sku],
  barcode: ['text', (item) => item.barcode],
  title: ['text', (item) => item.title],
  quantity: ['integer', (item) => item.quantity],
  note: ['text', (item) => item.note],
});

/** A line item of which units were counted. `excess` of them are above the announced units. */
interface Counted extends Pick<NewUnexpected, 'sku' | 'barcode' | 'title'> {
  readonly lineItemId: bigint;
  readonly excess: number;
}

/**
 * Adds arrived units to line items of a return, which the caller has locked. Of the units of one arrival, the damaged
 * ones are the first above the announced ones.
 *
 * @param o.given when they arrived; undefined keeps the time of an earlier arrival, otherwise means now.
 * @returns the line items that the return has.
 */
export async function countArrived(
  tx: Queryable,
  o: ReturnRef & { readonly items: readonly NewItem[]; readonly given: Date | undefined },
): Promise<Counted[]> {
  if (o.items.length === 0) return [];
  const { rows } = await tx.query<{
    id: bigint;
    excess: number;
    sku: string;
    barcode: string;
    title: string;
  }>(
    named(
      'count-arrived',
      sql`
with counted as materialized (
  select l.id, i.quantity, i.damaged_quantity as damaged,
         least(i.quantity, greatest(l.quantity - l.arrived_quantity, 0)) as units
    from return_lines l join ${itemRows('i', o.items)} on i.line_item_id = l.id
   where l.shop_id = ${o.shopId} and l.return_id = ${o.returnId} and l.removed_at is null
)
update return_lines l
   set arrived_quantity = l.arrived_quantity + c.units,
       damaged_quantity = l.damaged_quantity + greatest(c.damaged - (c.quantity - c.units), 0),
       returned_at = coalesce(${o.given ?? null}::timestamptz, l.returned_at, now())
  from counted c
 where l.shop_id = ${o.shopId} and l.id = c.id
returning l.id, c.quantity - c.units as excess, l.sku, l.barcode, l.title`,
    ),
  );
  return rows.map(({ id: lineItemId, ...row }) => ({ lineItemId, ...row }));
}

/** More units than any shop has. The column is an integer. */
const UNEXPECTED_MAX = 2_000_000_000;

/** Stores an arrival at a return, which the caller has locked. @returns the id of the arrival. */
export async function insertArrival(
  tx: Queryable,
  o: ReturnRef & {
    readonly destinationId: bigint;
    readonly given: Date | undefined;
    readonly items: readonly NewItem[];
    readonly unexpected: readonly NewUnexpected[];
  },
): Promise<bigint> {
  const { shopId, returnId, items, unexpected } = o;
  const units = unexpected.reduce((sum, item) => sum + item.quantity, 0);
  const inserted = await tx.query<{ id: bigint }>(
    named(
      'insert-arrival',
      sql`
with counted as (
  update returns set unexpected_quantity = least(unexpected_quantity::bigint + ${units}::bigint, ${UNEXPECTED_MAX}::bigint)
   where shop_id = ${shopId} and id = ${returnId} and ${units}::bigint > 0
)
insert into arrivals (shop_id, return_id, destination_id, arrived_at, item_count)
values (${shopId}, ${returnId}, nullif(${o.destinationId}::bigint, 0), coalesce(${o.given ?? null}::timestamptz, now()),
        ${items.length + unexpected.length})
returning id`,
    ),
  );
  const { id } = onlyRow(inserted);
  await tx.query(
    named(
      'insert-arrival-items',
      sql`
with expected as (
  insert into arrival_items (shop_id, arrival_id, position, line_item_id, quantity, damaged_quantity, note)
  select ${shopId}::bigint, ${id}::bigint, n - 1, line_item_id, quantity, damaged_quantity, note
    from ${itemRows('i', items, 'n')}
)
insert into arrival_unexpected (shop_id, arrival_id, position, line_item_id, sku, barcode, title, quantity, note)
select ${shopId}::bigint, ${id}::bigint, n - 1, line_item_id, sku, barcode, title, quantity, note
  from ${unexpectedRows('u', unexpected, 'n')}`,
    ),
  );
  return id;
}

/** Reads one arrival that exists. */
export async function loadArrival(
  db: Queryable,
  { shopId, arrivalId }: { readonly shopId: bigint; readonly arrivalId: bigint },
): Promise<Arrival> {
  const found = await db.query<ArrivalRow>({
    name: 'load-arrival',
    text: `select ${COLUMNS} from arrivals a where a.shop_id = $1 and a.id = $2`,
    values: [shopId, arrivalId],
  });
  return toArrival(onlyRow(found));
}

/** Number of arrivals in one list, and of their items together. The newest arrival is always in it. */
const ARRIVALS_MAX = 100;
const ITEMS_MAX = 2_000;

/** Reads the newest arrivals at a return, newest first, as many as fit into one response. */
export async function loadArrivals(
  db: Queryable,
  { shopId, returnId }: ReturnRef,
): Promise<Arrival[]> {
  const { rows } = await db.query<ArrivalRow>({
    name: 'load-arrivals',
    text: `
with listed as (
  select id, item_count, sum(item_count) over (order by id desc) as total
    from (select id, item_count from arrivals where shop_id = $1 and return_id = $2
           order by id desc limit ${ARRIVALS_MAX}) newest
)
select ${COLUMNS} from arrivals a
 where a.shop_id = $1
   and a.id = any(array(select id from listed where total <= ${ITEMS_MAX} or total = item_count))
 order by a.id desc`,
    values: [shopId, returnId],
  });
  return rows.map(toArrival);
}

const COLUMNS = `a.id, a.return_id,
  (select state from returns r where r.shop_id = a.shop_id and r.id = a.return_id) as return_state, a.destination_id, a.arrived_at,
  array_to_json(array(
    select json_build_array(i.line_item_id, i.quantity, i.damaged_quantity, i.note)
      from arrival_items i where i.shop_id = a.shop_id and i.arrival_id = a.id order by i.position)) as items,
  array_to_json(array(
    select json_build_array(u.line_item_id, u.sku, u.barcode, u.title, u.quantity, u.note)
      from arrival_unexpected u where u.shop_id = a.shop_id and u.arrival_id = a.id order by u.position)) as unexpected`;

interface ArrivalRow {
  readonly id: bigint;
  readonly return_id: bigint;
  readonly return_state: string;
  readonly destination_id: bigint | null;
  readonly arrived_at: Date;
  readonly items: readonly (readonly [number, number, number, string])[];
  readonly unexpected: readonly (readonly [
    number | null,
    string,
    string,
    string,
    number,
    string,
  ])[];
}

function toArrival(row: ArrivalRow): Arrival {
  return create(ArrivalSchema, {
    id: row.id,
    returnId: row.return_id,
    returnState: stateText.fromText(row.return_state),
    destinationId: row.destination_id ?? 0n,
    arrivedAt: timestampFromDate(row.arrived_at),
    items: row.items.map(([lineItemId, quantity, damagedQuantity, note]) => {
      return { lineItemId: BigInt(lineItemId), quantity, damagedQuantity, note };
    }),
    unexpected: row.unexpected.map(([lineItemId, sku, barcode, title, quantity, note]) => {
      return { lineItemId: BigInt(lineItemId ?? 0), sku, barcode, title, quantity, note };
    }),
  });
}
