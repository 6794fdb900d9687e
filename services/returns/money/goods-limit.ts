import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { lockOrder } from './paid-shipping.ts';

/**
 * Whether the goods of a return have a higher value than is left of the order by its newest look-up, such as after a
 * refund for goodwill, or after other returns got shares that were rounded without it. Locks the order.
 *
 * @param openingIds expired returns that the same change opens again.
 */
export async function exceedsGoods(
  tx: Queryable,
  { id, shopId, order, currency, presentmentCurrency }: Return,
  openingIds: readonly bigint[] = [],
): Promise<boolean> {
  await lockOrder(tx, shopId, order?.id);
  const { rowCount } = await tx.query(
    `select from orders o join returns r on r.shop_id = o.shop_id and r.order_id = o.id
      where o.shop_id = $1 and o.id = $2 and o.goods_limit_in = $4
        and (r.id = $3 or r.state not in ('cancelled', 'expired') or r.id = any($5::bigint[]))
        and r.currency || ' ' || r.presentment_currency = $4
      group by o.goods_limit, o.presentment_goods_limit
     having sum(r.return_total) > o.goods_limit or sum(r.presentment_return_total) > o.presentment_goods_limit`,
    [shopId, order?.id, id, `${currency} ${presentmentCurrency}`, openingIds],
  );
  return rowCount === 1;
}
