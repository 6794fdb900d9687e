import type { Pool } from 'pg';
import { ask } from '../../commerce/find-order.ts';
import { CommerceFailure, type CommerceProvider, isFinal } from '../../commerce/provider.ts';
import { elsewhereOf, moneyLimitOf } from '../../commerce/remaining.ts';
import { isByHand } from '../../commerce/reported-refunds.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { formatAmount } from '../../platform/values/money.ts';
import { KEPT } from '../instant-refunds/instant-refunds-store.ts';
import type { ReturnRef } from '../return.ts';

/** What was known of an order before its return is paid. */
interface KnownOfOrder {
  /** Number of events about the order that are in the limit. */
  readonly news: number;
  /** Whether the provider has reported a refund that this service did not request. */
  readonly isRefundedThere: boolean;
}

/**
 * Looks up the order of a return whose order the merchant has refunded, and stores what its returns may still pay
 * together. Asks the provider for no other order.
 *
 * @throws CommerceFailure `passing` and unsent, when the provider does not answer. A provider that looks up no orders, or
 *   not this one, limits nothing.
 */
export async function refreshMoneyLimit(
  pool: Pool,
  { shopId, returnId }: ReturnRef,
  commerceOf: () => Promise<CommerceProvider | undefined>,
): Promise<KnownOfOrder> {
  const { rows } = await pool.query<KnownOfOrder & { orderId: bigint; providerOrderId: bigint }>({
    name: 'refunded-order-of-return',
    text: `select r.provider_news as news, t.id as "orderId", t.provider_order_id as "providerOrderId",
                  exists (select from inbound_refunds f
                           where ${isByHand('f', { shop: 't.shop_id', order: 't.provider_order_id' })}) as "isRefundedThere"
             from returns r join orders t on t.shop_id = r.shop_id and t.id = r.order_id
            where r.shop_id = $1 and r.id = $2`,
    values: [shopId, returnId],
  });
  const { news, isRefundedThere, orderId, providerOrderId: id } = rows[0] ?? NO_RETURN;
  if (!isRefundedThere) return { news, isRefundedThere };
  const found = await ask({ pool }, await commerceOf(), { shopId, id }).catch(withoutAnswer);
  const { order, askedAt } = found ?? {};
  if (order && askedAt !== undefined) {
    const { presentment: limit } = moneyLimitOf(
      order,
      await elsewhereOf(pool, { shopId, order, askedAt }),
    );
    const { presentment: currency } = order.currencies;
    await pool.query(
      'update orders set money_limit = $3, money_limit_in = $4 where shop_id = $1 and id = $2',
      [shopId, orderId, formatAmount(limit, currency), currency],
    );
  }
  return { news, isRefundedThere };
}

const NO_RETURN = { news: 0, isRefundedThere: false, orderId: 0n, providerOrderId: 0n };

function withoutAnswer(error: unknown): undefined {
  if (isFinal(error)) return undefined;
  if (!(error instanceof CommerceFailure)) throw error;
  const { message, retryAfterMs } = error;
  throw new CommerceFailure('passing', message, { cause: error, retryAfterMs, isUnsent: true });
}

/**
 * Says that the returns of an order would pay more than what is left of its money, by {@link refreshMoneyLimit}.
 * Undefined when they do not, and for a return that pays nothing. As with units, all returns count that are not cancelled
 * or expired. Money that an instant refund paid is not paid again.
 */
export async function beyondMoney(tx: Queryable, { shopId, returnId }: ReturnRef) {
  const { rows } = await tx.query<{ paid: string; left: string; currency: string }>({
    name: 'beyond-money',
    text: `
select sum(r.presentment_refund + r.presentment_return_credit - coalesce(instant.kept, 0))::text as paid,
       t.money_limit::text as left, t.money_limit_in as currency
  from returns own
  join orders t on t.shop_id = own.shop_id and t.id = own.order_id and t.money_limit_in = own.presentment_currency
  join returns r on r.shop_id = t.shop_id and r.order_id = t.id and r.presentment_currency = t.money_limit_in
    and r.state not in ('cancelled', 'expired')
 cross join lateral (
   select sum(i.amount) as kept from instant_refunds i
    where i.shop_id = r.shop_id and i.return_id = r.id and i.currency = t.money_limit_in and i.state in (${KEPT})) instant
 where own.shop_id = $1 and own.id = $2 and own.presentment_refund + own.presentment_return_credit > 0
 group by t.money_limit, t.money_limit_in
having sum(r.presentment_refund + r.presentment_return_credit - coalesce(instant.kept, 0)) > t.money_limit`,
    values: [shopId, returnId],
  });
  const [over] = rows;
  return (
    over &&
    `the returns of the order pay ${over.paid} ${over.currency} together, and only ${over.left} of what was paid is left after refunds at the commerce provider`
  );
}
