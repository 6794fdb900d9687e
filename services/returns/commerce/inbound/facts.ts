/**
 * SQL: whether the refund in the row `f` of `inbound_refunds` is one that processing requested. This is decided when it
 * is read, because the news of a refund may arrive before its answer is recorded.
 *
 * @param f the alias of the row.
 */
export function isOwnRefund(f: string): string {
  return `(exists (
      select from processing_outcomes own
       where own.shop_id = ${f}.shop_id and own.key = ${f}.key and own.kind = 'refund')
    or exists (
      select from processing_outcomes own
       where own.shop_id = ${f}.shop_id and own.provider_id = ${f}.provider_refund_id
         and own.kind = 'refund'))`;
}

/**
 * SQL: the units of an order line that were refunded at the provider, not by this service.
 *
 * @param of expressions of the shop, of the provider's id of the order, and of the line.
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
