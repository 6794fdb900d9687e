import type { Pool } from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ask } from '../../commerce/find-order.ts';
import { CommerceFailure, type CommerceProvider, isFinal } from '../../commerce/provider.ts';
import { elsewhereOf, moneyLimitOf } from '../../commerce/remaining.ts';
import { isByHand } from '../../commerce/reported-refunds.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { formatAmount, minorOf } from '../../platform/values/money.ts';
import { KEPT } from '../instant-refunds/instant-refunds-store.ts';
import type { ReturnRef } from '../return.ts';

/** What was known of an order before its return is paid. */
export interface KnownOfOrder {
  /** Number of events about the order that are in the limit. */
  readonly news: number;
  /** Whether the provider has reported a refund that this service did not request. */
  readonly isRefundedThere: boolean;
  /** What its returns may pay together by a look-up that began at `askedAt`. Undefined when nothing limits them. */
  readonly limit?: { readonly amount: string; readonly currency: string; readonly askedAt: string };
}

/**
 * Looks up the order of a return whose order the merchant has refunded. Asks the provider for no other order. The result
 * is for one payment and is not stored: what counts as a refund by the merchant may turn out to be ours.
 *
 * @throws CommerceFailure `passing` and unsent, when the provider does not answer. A provider that looks up no orders, or
 *   not this one, limits nothing.
 */
export async function knownOfOrder(
  pool: Pool,
  { shopId, returnId }: ReturnRef,
  commerceOf: () => Promise<CommerceProvider | undefined>,
): Promise<KnownOfOrder> {
  const { rows } = await pool.query<KnownOfOrder & { providerOrderId: bigint }>({
    name: 'refunded-order-of-return',
    text: `select r.provider_news as news, t.provider_order_id as "providerOrderId",
                  exists (select from inbound_refunds f
                           where ${isByHand('f', { shop: 't.shop_id', order: 't.provider_order_id' })}) as "isRefundedThere"
             from returns r join orders t on t.shop_id = r.shop_id and t.id = r.order_id
            where r.shop_id = $1 and r.id = $2`,
    values: [shopId, returnId],
  });
  const { news, isRefundedThere, providerOrderId: id } = rows[0] ?? NO_RETURN;
  if (!isRefundedThere) return { news, isRefundedThere };
  const found = await ask({ pool }, await commerceOf(), { shopId, id }).catch(withoutAnswer);
  if (!found?.order) return { news, isRefundedThere };
  const { order, askedAt } = found;
  const { presentment } = moneyLimitOf(order, await elsewhereOf(pool, { shopId, order, askedAt }));
  const { presentment: currency } = order.currencies;
  const limit = { amount: formatAmount(presentment, currency), currency, askedAt };
  return { news, isRefundedThere, limit };
}

const NO_RETURN = { news: 0, isRefundedThere: false, providerOrderId: 0n };

function withoutAnswer(error: unknown): undefined {
  if (isFinal(error)) return undefined;
  if (!(error instanceof CommerceFailure)) throw error;
  const { message, retryAfterMs } = error;
  throw new CommerceFailure('passing', message, { cause: error, retryAfterMs, isUnsent: true });
}

/**
 * Says that the returns of an order would pay more than its limit. Undefined when they do not, and for a return that pays
 * nothing. As with units, all returns count that are not cancelled or expired. Money that an instant refund paid is not
 * paid again.
 *
 * @param own the return with the units that would be paid, which may be fewer than were announced.
 * @throws CommerceFailure `passing` and unsent, while another refund of ours may be both in the limit and in a return.
 */
export async function beyondMoney(
  tx: Queryable,
  own: Return,
  limit: KnownOfOrder['limit'],
): Promise<string | undefined> {
  const { presentmentCurrency: currency, presentmentTotals: totals } = own;
  const minor = (text = '0') => minorOf(text, currency);
  const pays = minor(totals?.refund) + minor(totals?.returnCreditTotal);
  if (limit?.currency !== currency || pays <= 0n) return undefined;
  const { rows } = await tx.query<{ paid: string; isUnsettled: boolean }>({
    name: 'beyond-money',
    text: `
select sum(each.amount)::text as paid, bool_or(each.is_unsettled) as "isUnsettled"
  from returns own
  join returns r on r.shop_id = own.shop_id and r.order_id = own.order_id and r.presentment_currency = $4
    and r.state not in ('cancelled', 'expired')
 cross join lateral (
   select case when r.id = own.id then $3 else r.presentment_refund + r.presentment_return_credit end
          - coalesce((select sum(i.amount) from instant_refunds i
                       where i.shop_id = r.shop_id and i.return_id = r.id and i.currency = $4
                         and i.state in (${KEPT})), 0) as amount,
          r.id <> own.id and exists (
            select from processing_outcomes o
             where o.shop_id = r.shop_id and o.return_id = r.id and o.kind = 'refund' and o.asked_at is not null
               and (o.done_at is null or o.done_at > $6)) as is_unsettled) each
 where own.shop_id = $1 and own.id = $2
having sum(each.amount) > $5`,
    values: [
      own.shopId,
      own.id,
      formatAmount(pays, currency),
      currency,
      limit.amount,
      limit.askedAt,
    ],
  });
  const [over] = rows;
  if (!over) return undefined;
  if (over.isUnsettled) {
    const why = 'another return of the order is being refunded';
    throw new CommerceFailure('passing', why, { isUnsent: true });
  }
  return `the returns of the order pay ${over.paid} ${currency} together, and only ${limit.amount} of what was paid is left after refunds at the commerce provider`;
}
