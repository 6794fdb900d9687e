import type { Queryable } from '../../../platform/postgres.ts';
import type { ListedEffect } from '../provider.ts';

/**
 * SQL condition: processing requested the refund in row `f` of `inbound_refunds`. Each query evaluates the condition
 * again, because the event about a refund may arrive before the answer to its request is recorded.
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

/** Prefix of all keys of this service. */
const OWN_KEYS = 'rms:';

/**
 * Returns the ids of those listed refunds that the merchant's platform has reported as the merchant's own. A refund
 * with a key of this service is never a refund of the merchant.
 */
export async function merchantsRefunds(
  db: Queryable,
  shopId: bigint,
  effects: readonly ListedEffect[],
): Promise<ReadonlySet<string>> {
  const ids = effects
    .filter(({ kind, key }) => kind === 'refund' && !key.startsWith(OWN_KEYS))
    .map(({ id }) => id);
  if (ids.length === 0) return new Set();
  const { rows } = await db.query<{ id: string }>(
    `select provider_refund_id as id from inbound_refunds
      where shop_id = $1 and provider_refund_id = any($2::text[])`,
    [shopId, ids],
  );
  return new Set(rows.map(({ id }) => id));
}
