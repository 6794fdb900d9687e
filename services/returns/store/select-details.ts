import { amountColumnsOf } from '../../platform/money.ts';
import { RETURN_FIELDS } from '../fields.ts';
import { EXCHANGE_AMOUNTS, RETURN_AMOUNTS } from '../money/totals.ts';

const exchangeAmounts = amountColumnsOf(EXCHANGE_AMOUNTS)
  .map((name) => `'${name}', e.${name}::text`)
  .join(', ');
const COLUMNS = [...RETURN_FIELDS.columns, ...amountColumnsOf(RETURN_AMOUNTS)]
  .map((name) => `r.${name}`)
  .join(', ');

/** SQL for a label `b` as JSON. */
export const LABEL_JSON = `json_build_object('id', b.id, 'return_id', b.return_id,
  'carrier', b.carrier, 'tracking_number', b.tracking_number, 'url', b.url, 'rate', b.rate::text,
  'status', b.status, 'line_item_ids', b.line_item_ids, 'created_at', b.created_at,
  'updated_at', b.updated_at)`;

/** SQL for the uploads of return `r` as JSON. */
export const UPLOADS = `array_to_json(array(
         select json_build_object('id', u.id, 'line_item_id', u.line_item_id, 'kind', u.kind,
           'source', u.source, 'media_type', u.media_type, 'url', u.url, 'created_at', u.created_at)
         from uploads u where u.shop_id = r.shop_id and u.return_id = r.id
         order by u.id))`;

/**
 * The beginning of a statement that reads rows of the type `ReturnRow` of the shop $1. A condition on `r` must follow.
 *
 * Each list is one JSON text, because the driver parses arrays letter by letter.
 *
 * @param lineTexts SQL for each line item, such as `LINE_TEXTS`.
 * @param uploads SQL for the uploads, such as `UPLOADS`.
 */
export const selectDetails = (lineTexts: string, uploads: string) => `
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
         select ${LABEL_JSON}
         from labels b where b.shop_id = r.shop_id and b.return_id = r.id
         order by b.created_at, b.id)) as labels
  from returns r
  join orders o on o.shop_id = r.shop_id and o.id = r.order_id
 where r.shop_id = $1 and `;
