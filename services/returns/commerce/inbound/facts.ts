import type { Queryable } from '../../../platform/postgres.ts';
import type { ListedEffect } from '../provider.ts';

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

/** All keys of this service begin so. */
const OWN_KEYS = 'rms:';

/**
 * The ids of listed refunds that the merchant has reported as their own. One with a key of this service is not believed
 * to be a merchant's.
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
