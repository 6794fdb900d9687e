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
            where f.shop_id = ${of.shop} and f.provider_order_id = ${of.order}
              and fl.provider_line_item_id = ${of.line} and not ${isOwnRefund('f')})`;
}
