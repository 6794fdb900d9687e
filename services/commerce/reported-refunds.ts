import type { Queryable } from '../platform/postgres/postgres.ts';
import { netOf } from '../platform/values/line-value.ts';
import { inBoth, minorOf } from '../platform/values/money.ts';
import type { FoundOrder } from './provider.ts';
import { elsewhereOf, linesLeft } from './remaining.ts';

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
 * Adds to an order what the merchant refunded and its lines and shipping do not show, if the provider lists no such
 * refunds with the order and has reported them: by the amount alone, or more for lines than the share of their units. It
 * may have been for shipping, so what is gone of the shipping is not counted again.
 */
export async function withReported(
  db: Queryable,
  o: { readonly shopId: bigint; readonly order: FoundOrder; readonly askedAt: string },
): Promise<FoundOrder> {
  const { shopId, order } = o;
  const { id, currencies, shipping, lines } = order;
  if (order.otherRefunds) return order;
  const { rows } = await db.query<{ amount: string; ofLines: string | null }>({
    name: 'refunded-by-amount',
    text: `select f.amount::text,
                  (select sum(fl.amount)::text from inbound_refund_lines fl
                    where fl.shop_id = f.shop_id and fl.provider_refund_id = f.provider_refund_id) as "ofLines"
             from inbound_refunds f
            where ${isByHand('f', { shop: '$1', order: '$2' })} and f.currency = $3`,
    values: [shopId, id, currencies.presentment],
  });
  if (rows.length === 0) return order;
  const minor = (text: string) => minorOf(text, currencies.presentment);
  const sumOf = (amounts: readonly bigint[]) => amounts.reduce((sum, amount) => sum + amount, 0n);
  const withLines = rows.map(({ amount, ofLines }) => {
    if (ofLines === null) return 0n;
    const [all, own] = [minor(amount), minor(ofLines)];
    // The rest may be for the shipping, which is not known then.
    return shipping || all < own ? all : own;
  });
  const left = linesLeft(order, await elsewhereOf(db, o));
  const ofGoods = sumOf(withLines) - sumOf(left.map((line) => netOf(line.valueThere.presentment)));
  const byAmount = sumOf(
    rows.map(({ amount, ofLines }) => (ofLines === null ? minor(amount) : 0n)),
  );
  const ofShipping = shipping ? shipping.paid.presentment - shipping.left.presentment : 0n;
  const other = byAmount + (ofGoods > 0n ? ofGoods : 0n) - ofShipping;
  if (other <= 0n) return order;
  const paid = inBoth((side) => lines.reduce((sum, line) => sum + netOf(line.paid[side]), 0n));
  // Refunds are in the presentment currency.
  const shop = paid.presentment === 0n ? 0n : (other * paid.shop) / paid.presentment;
  return { ...order, otherRefunds: [{ id: '', key: '', value: { shop, presentment: other } }] };
}
