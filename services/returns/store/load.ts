import type pg from 'pg';
import type { Label, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { EXCHANGE_AMOUNTS, RETURN_AMOUNTS, RETURN_FIELDS } from '../fields/return.ts';
import { amountColumnsOf } from '../money/amount-columns.ts';
import { LARGE_BYTES, largeOf } from './large.ts';
import { LINE_TEXTS, LISTED_LINE_TEXTS } from './line-row.ts';
import type { LabelRow, ReturnRow } from './rows.ts';
import { toLabel, toReturn } from './to-message.ts';

const exchangeAmounts = amountColumnsOf(EXCHANGE_AMOUNTS)
  .map((name) => `'${name}', e.${name}::text`)
  .join(', ');
const COLUMNS = [...RETURN_FIELDS.columns, ...amountColumnsOf(RETURN_AMOUNTS)]
  .map((name) => `r.${name}`)
  .join(', ');

const labelJson = `json_build_object('id', b.id, 'return_id', b.return_id,
  'carrier', b.carrier, 'tracking_number', b.tracking_number, 'url', b.url, 'rate', b.rate::text,
  'status', b.status, 'line_item_ids', b.line_item_ids, 'created_at', b.created_at,
  'updated_at', b.updated_at)`;

export const UPLOADS = `array_to_json(array(
         select json_build_object('id', u.id, 'line_item_id', u.line_item_id, 'kind', u.kind,
           'source', u.source, 'media_type', u.media_type, 'url', u.url, 'created_at', u.created_at)
         from uploads u where u.shop_id = r.shop_id and u.return_id = r.id
         order by u.id))`;

/**
 * Selects what {@link ReturnRow} names of the shop $1, up to a condition on `r` that follows.
 *
 * Lists come as one JSON text each: the driver takes arrays apart letter by letter.
 */
export const selected = (lineTexts: string, uploads: string) => `
select r.shop_id, r.id, r.revision, r.created_at, r.updated_at, r.edited_at, r.archived_at,
       r.order_id, r.order_name, r.order_number, r.provider_order_number, o.provider_order_id,
       r.customer_email, r.customer_first_name, r.customer_last_name, r.customer_address,
       r.state, r.currency, r.presentment_currency, r.flag_reasons, r.processing,
       ${COLUMNS},
       array_to_json(array(
         select ${lineTexts}
         from return_lines l
         left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
         left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
         where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
         order by l.position)) as lines,
       ${uploads} as uploads,
       array_to_json(array(
         select json_build_object('id', e.id, 'product_id', e.product_id,
           'variant_id', e.variant_id, 'sku', e.sku, 'title', e.title, ${exchangeAmounts},
           'type', e.type, 'out_of_stock', e.out_of_stock,
           'out_of_stock_resolution', e.out_of_stock_resolution)
         from exchanges e where e.shop_id = r.shop_id and e.return_id = r.id
         order by e.position)) as exchanges,
       array_to_json(array(
         select json_build_object('kind', p.kind, 'provider_order_id', p.provider_order_id,
           'name', p.name, 'value', p.value::text, 'currency', p.currency)
         from provider_orders p where p.shop_id = r.shop_id and p.return_id = r.id
         order by p.created_at, p.provider_order_id)) as provider_orders,
       array_to_json(array(
         select json_build_object('id', f.id, 'gateway', f.gateway, 'provider', f.provider,
           'provider_refund_id', f.provider_refund_id, 'value', f.value::text,
           'currency', f.currency, 'provider_created_at', f.provider_created_at,
           'created_at', f.created_at, 'updated_at', f.updated_at)
         from refunds f where f.shop_id = r.shop_id and f.return_id = r.id
         order by f.id)) as refunds,
       array_to_json(array(
         select ${labelJson}
         from labels b where b.shop_id = r.shop_id and b.return_id = r.id
         order by b.created_at, b.id)) as labels
  from returns r
  join orders o on o.shop_id = r.shop_id and o.id = r.order_id
 where r.shop_id = $1 and `;
const LOAD_SELECTED = selected(LINE_TEXTS, UPLOADS);
// For one id a plan of its own: that of an array is made anew for every call.
const LOAD_ONE = `${LOAD_SELECTED}r.id = $2`;
const storedBytes = (of: string) =>
  `coalesce(octet_length(${of}.note), 0) + coalesce(pg_column_size(${of}.images), 0)`;
// As it is stored, which is told without reading it: an estimate, too low where images compress well.
const STORED_BYTES = `
(select coalesce(sum(${storedBytes('c')} + coalesce(octet_length(c.description), 0)
                   + ${storedBytes('d')}), 0)
   from return_lines l
   left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
   left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
  where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null)
+ (select coalesce(sum(octet_length(u.url)), 0) from uploads u
    where u.shop_id = r.shop_id and u.return_id = r.id)`;
// What is too large is neither sent nor taken apart, and seldom made into JSON, which takes a third of a second.
const LOAD_ONE_WITHIN = `
with found as materialized (${LOAD_ONE} and ${STORED_BYTES} <= $3),
     sized as materialized (
       select octet_length(lines::text) + octet_length(uploads::text) > $3 as is_large from found
       union all
       select true from returns r where r.shop_id = $1 and r.id = $2 and ${STORED_BYTES} > $3)
select sized.is_large, fitting.* from sized left join found fitting on not sized.is_large`;
const LOAD_RETURNS = `${LOAD_SELECTED}r.id = any($2::bigint[])`;

/** What names, sums that follow and tags add to the texts of a line. Bytes. */
const LINE_BYTES = 1_000;
/** Lines and uploads of one answer, as JSON: what several callers wait for stays small. Bytes. */
const ROOM_BYTES = 8 * 1024 * 1024;
/** The same of a page for a list. A line takes about two thousand: 500 lines cost as much as ten reads. Bytes. */
const LISTED_ROOM_BYTES = 1024 * 1024;
// The parts are measured where they are, so that what has no room is neither sent nor taken apart.
const fitting = (returns: string) => `
with found as materialized (${returns})
select * from (
  select found.*, row_number() over w as place,
         sum(octet_length(lines::text) + ${LINE_BYTES} * json_array_length(lines)
           + octet_length(uploads::text)) over w as bytes_so_far
    from found
  window w as (order by array_position($2::bigint[], id))) measured
 where bytes_so_far <= $3 or ($4 and place = 1)
 order by place`;
const LOAD_FITTING = fitting(`${LOAD_RETURNS} and ($4 or ${STORED_BYTES} <= $3)`);
const LOAD_LISTED = fitting(`${selected(LISTED_LINE_TEXTS, `'[]'::json`)}r.id = any($2::bigint[])`);

const inspectionBytes = (of: string) =>
  `coalesce(octet_length(${of}.note), 0) + coalesce(octet_length(array_to_string(${of}.images, '')), 0)`;
// Never more than the JSON of the same, which takes a third of a second to make for one of the largest
// returns: a page of fifty would not come in time, only to be cut.
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
 * Reads whole returns with their derived sums: one statement however many, answered in the order of
 * `ids`. Ids that are absent or another shop's are left out.
 */
export async function loadReturns(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<Return[]> {
  if (ids.length === 0) return [];
  const { rows } = await db.query<ReturnRow>(
    ids.length === 1
      ? { name: 'load-one-return', text: LOAD_ONE, values: [shopId, ids[0]] }
      : { name: 'load-returns', text: LOAD_RETURNS, values: [shopId, ids] },
  );
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row ? [toReturn(row)] : [];
  });
}

/**
 * {@link loadReturns}, unless their lines and uploads, as JSON, are larger than `maxBytes` together. Of
 * several of which some are absent it may say that they are large.
 */
export async function loadReturnsWithin(
  db: Queryable,
  shopId: bigint,
  o: { readonly ids: readonly bigint[]; readonly maxBytes: number },
): Promise<readonly Return[] | 'large'> {
  const [id, ...others] = new Set(o.ids);
  if (id === undefined) return [];
  if (others.length > 0) {
    const found = await loadFitting(db, shopId, o.ids, { roomBytes: o.maxBytes });
    return found.length === others.length + 1 ? found : 'large';
  }
  const found = await loadReturnWithin(db, shopId, { id, maxBytes: o.maxBytes });
  if (found === 'large') return found;
  return found ? [found] : [];
}

/** How much one answer holds. */
export interface Room {
  /** Of lines and uploads, as JSON; 8 MiB unless told otherwise. */
  readonly roomBytes?: number;
  /** Answers the first return however large it is, so that whoever asks on comes to an end. */
  readonly keepsFirst?: boolean;
}

/**
 * Reads whole returns, in the order of `ids`, each once, up to the first that has no room. Ids that are absent or another shop's are left out.
 */
export async function loadFitting(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
  { roomBytes = ROOM_BYTES, keepsFirst = false }: Room = {},
): Promise<Return[]> {
  const near = keepsFirst ? await fittingIds(db, shopId, ids, roomBytes) : ids;
  // There is nothing to measure, and the plan for one id is kept.
  if (near.length === 0 || (near.length === 1 && keepsFirst)) return loadReturns(db, shopId, near);
  const { rows } = await db.query<ReturnRow>({
    name: 'load-fitting',
    text: LOAD_FITTING,
    values: [shopId, near, roomBytes, keepsFirst],
  });
  return rows.map(toReturn);
}

/**
 * Reads returns for a list, in the order of `ids`: without notes, descriptions and pictures of inspections,
 * and without uploads. The first always, then up to the first that has no room. Ids that are absent or another
 * shop's are left out.
 */
export async function loadListed(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<Return[]> {
  if (ids.length === 0) return [];
  const values = [shopId, ids, LISTED_ROOM_BYTES, true];
  const { rows } = await db.query<ReturnRow>({ name: 'load-listed', text: LOAD_LISTED, values });
  return rows.map(toReturn);
}

/**
 * Reads whole returns for an answer, as {@link loadFitting} with its first kept; what is large waits until
 * few others are in memory.
 *
 * @throws ConnectError OVERLOADED when it waited too long.
 */
export async function loadPage(
  pool: pg.Pool,
  shopId: bigint,
  ids: readonly bigint[],
): Promise<readonly Return[]> {
  const small = await loadReturnsWithin(pool, shopId, { ids, maxBytes: LARGE_BYTES });
  if (small !== 'large') return small;
  return largeOf(pool).within(shopId, () => loadFitting(pool, shopId, ids, { keepsFirst: true }));
}

/**
 * As many of `ids`, in their order, as have room by their notes, images and uploads alone, the first
 * always: what there is to say before they are read.
 */
export async function fittingIds(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
  roomBytes = ROOM_BYTES,
): Promise<readonly bigint[]> {
  if (ids.length <= 1) return ids;
  const { rows } = await db.query<{ id: bigint }>(FITTING_IDS, [shopId, ids, roomBytes]);
  return rows.map((row) => row.id);
}

/** Most returns of one part of {@link fittingParts}. */
const PART = 50;

/**
 * Ids of returns that the caller has locked, in their order, in parts of which each has room as
 * {@link fittingIds} measures it when the part is asked for.
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

/** Reads one whole return; undefined when the shop has none with that id. */
export async function loadReturn(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<Return | undefined> {
  const [found] = await loadReturns(db, shopId, [id]);
  return found;
}

/**
 * Reads one whole return unless its lines and uploads, as JSON, are larger than `maxBytes`; undefined when the
 * shop has none with that id.
 */
export async function loadReturnWithin(
  db: Queryable,
  shopId: bigint,
  { id, maxBytes }: { readonly id: bigint; readonly maxBytes: number },
): Promise<Return | 'large' | undefined> {
  const { rows } = await db.query<ReturnRow & { readonly is_large: boolean }>({
    name: 'load-one-return-within',
    text: LOAD_ONE_WITHIN,
    values: [shopId, id, maxBytes],
  });
  const [row] = rows;
  if (!row) return undefined;
  return row.is_large ? 'large' : toReturn(row);
}

/** Reads one label; undefined when the shop has none with that id. */
export async function loadLabel(
  db: Queryable,
  shopId: bigint,
  id: bigint,
): Promise<Label | undefined> {
  const { rows } = await db.query<{ label: LabelRow; currency: string }>(
    `select ${labelJson} as label, r.currency
       from labels b
       join returns r on r.shop_id = b.shop_id and r.id = b.return_id
      where b.shop_id = $1 and b.id = $2`,
    [shopId, id],
  );
  return rows[0] && toLabel(rows[0].label, rows[0].currency);
}
