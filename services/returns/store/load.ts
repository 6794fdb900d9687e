import type { Label, Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { LINE_TEXTS } from './line-row.ts';
import type { LabelRow, ReturnRow } from './rows.ts';
import { toLabel, toReturn } from './to-message.ts';

const exchangeAmounts = amountColumns('e', ['price', 'discount', 'tax']);

const labelJson = `json_build_object('id', b.id, 'return_id', b.return_id,
  'carrier', b.carrier, 'tracking_number', b.tracking_number, 'url', b.url, 'rate', b.rate::text,
  'status', b.status, 'line_item_ids', b.line_item_ids, 'created_at', b.created_at,
  'updated_at', b.updated_at)`;

// Lists come as one JSON text each: the driver takes arrays apart letter by letter.
const LOAD_SELECTED = `
select r.shop_id, r.id, r.revision, r.created_at, r.updated_at, r.edited_at, r.archived_at,
       r.order_id, r.order_name, r.order_number, r.provider_order_number, o.provider_order_id,
       r.customer_email, r.customer_first_name, r.customer_last_name, r.customer_address,
       r.state, r.type, r.outcome, r.return_method, r.currency, r.presentment_currency,
       r.shipping, r.shipping_tax, r.credit_shipping, r.return_credit, r.handling_fee, r.refund,
       r.presentment_shipping, r.presentment_shipping_tax, r.presentment_credit_shipping,
       r.presentment_return_credit, r.presentment_handling_fee, r.presentment_refund,
       r.destination_id, r.status_page_url, r.package_reference, r.flag_reasons, r.processing,
       array_to_json(array(
         select ${LINE_TEXTS}
         from return_lines l
         left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
         left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
         where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
         order by l.position)) as lines,
       array_to_json(array(
         select json_build_object('id', u.id, 'line_item_id', u.line_item_id, 'kind', u.kind,
           'source', u.source, 'media_type', u.media_type, 'url', u.url, 'created_at', u.created_at)
         from uploads u where u.shop_id = r.shop_id and u.return_id = r.id
         order by u.id)) as uploads,
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
// For one id a plan of its own: that of an array is made anew for every call.
const LOAD_ONE = `${LOAD_SELECTED}r.id = $2`;
const LOAD_RETURNS = `${LOAD_SELECTED}r.id = any($2::bigint[])`;

/** What names, sums that follow and tags add to the texts of a line. Bytes. */
const LINE_BYTES = 1_000;
// The parts are measured where they are, so that what has no room is neither sent nor taken apart.
const LOAD_FITTING = `
with found as materialized (${LOAD_RETURNS})
select * from (
  select found.*,
         sum(octet_length(lines::text) + ${LINE_BYTES} * json_array_length(lines)
           + octet_length(uploads::text)) over (order by id) as bytes_so_far
    from found) measured
 where bytes_so_far <= $3`;

function amountColumns(table: string, names: readonly string[]): string {
  return [...names, ...names.map((name) => `presentment_${name}`)]
    .map((name) => `'${name}', ${table}.${name}::text`)
    .join(', ');
}

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
 * Reads whole returns, in no order, in one statement: as many as fit. Ids that are absent or another
 * shop's are left out as well.
 *
 * @param ids each once.
 * @param roomBytes of lines and uploads, as JSON.
 */
export async function loadFitting(
  db: Queryable,
  shopId: bigint,
  ids: readonly bigint[],
  roomBytes: number,
): Promise<Return[]> {
  if (ids.length === 0) return [];
  const { rows } = await db.query<ReturnRow>({
    name: 'load-fitting',
    text: LOAD_FITTING,
    values: [shopId, ids, roomBytes],
  });
  return rows.map(toReturn);
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
