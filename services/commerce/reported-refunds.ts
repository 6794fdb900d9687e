import type { Queryable } from '../platform/postgres/postgres.ts';
import { netOf } from '../platform/values/line-value.ts';
import { inBoth, minorOf } from '../platform/values/money.ts';
import type { FoundOrder } from './provider.ts';

/**
 * SQL condition: processing requested the refund in row `f` of `inbound_refunds` for a return that counts. The
 * units of cancelled and expired returns do not, so a refund that the provider made for one of them, although it rejected
 * the request, is not ours. Each query evaluates the condition again, because the event about a refund may arrive before the
 * answer to its request is recorded.
 *
 * @param f the alias of the row.
 */
export function isOwnRefund(f: string): string {
  const isLive = `exists (
         select from returns kept
          where kept.shop_id = own.shop_id and kept.id = own.return_id and kept.state not in ('cancelled', 'expired'))`;
  return `(exists (
      select from processing_outcomes own
       where own.shop_id = ${f}.shop_id and own.key = ${f}.key and own.kind = 'refund'
         and ${isLive})
    or exists (
      select from processing_outcomes own
       where own.shop_id = ${f}.shop_id and own.provider_id = ${f}.provider_refund_id
         and own.kind = 'refund' and ${isLive}))`;
}

/**
 * SQL: the number of units of an order line that were refunded at the provider, and not by this service.
 *
 * @param of SQL expressions of the shop, of the provider's id of the order, and of the line.
 */
export function unitsRefundedThere(of: {
  readonly shop: string;
  readonly order: string;
  readonly line: string;
}): string {
  return `(select coalesce(sum(fl.quantity), 0)::bigint
             from inbound_refunds f
             join inbound_refund_lines fl
               on fl.shop_id = f.shop_id and fl.provider_refund_id = f.provider_refund_id
            where ${isByHand('f', of)} and fl.provider_line_item_id = ${of.line})`;
}

/** SQL condition: row `f` of `inbound_refunds` is of the order, and this service did not request it. */
export function isByHand(f: string, of: { readonly shop: string; readonly order: string }): string {
  return `${f}.shop_id = ${of.shop} and ${f}.provider_order_id = ${of.order} and not ${isOwnRefund(f)}`;
}

/**
 * Adds to an order what the merchant refunded by its amount alone, if the provider lists no such refunds with the order
 * and has reported them. They may have been for shipping, so what is gone of the shipping is not counted again.
 */
export async function withReported(
  db: Queryable,
  shopId: bigint,
  order: FoundOrder,
): Promise<FoundOrder> {
  const { id, currencies, shipping, lines } = order;
  if (order.otherRefunds) return order;
  const { rows } = await db.query<{ amount: string }>({
    name: 'refunded-by-amount',
    text: `select f.amount::text from inbound_refunds f
            where ${isByHand('f', { shop: '$1', order: '$2' })} and f.currency = $3
              and not exists (
                select from inbound_refund_lines fl
                 where fl.shop_id = f.shop_id and fl.provider_refund_id = f.provider_refund_id)`,
    values: [shopId, id, currencies.presentment],
  });
  const reported = rows.reduce((sum, row) => sum + minorOf(row.amount, currencies.presentment), 0n);
  const ofShipping = shipping ? shipping.paid.presentment - shipping.left.presentment : 0n;
  const other = reported - ofShipping;
  if (other <= 0n) return order;
  const paid = inBoth((side) => lines.reduce((sum, line) => sum + netOf(line.paid[side]), 0n));
  // Refunds are in the presentment currency.
  const shop = paid.presentment === 0n ? 0n : (other * paid.shop) / paid.presentment;
  return { ...order, otherRefunds: [{ id: '', key: '', value: { shop, presentment: other } }] };
}
