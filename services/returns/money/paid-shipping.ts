import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { type Both, formatAmount, minorOf } from '../../platform/values/money.ts';
import type { CheckedSums, LineSums } from './totals.ts';

/** While it is not known what an order paid for shipping, a return refunds at most so many times its goods. */
const TIMES_THE_GOODS = 100n;

interface OrderShipping {
  readonly paid: string | null;
  readonly presentment_paid: string | null;
  /** What other returns of the order refund or credit. */
  readonly elsewhere: string;
  readonly presentment_elsewhere: string;
}

const ORDER_SHIPPING = `
select case when o.paid_shipping_in = $4 then o.paid_shipping end as paid,
       case when o.paid_shipping_in = $4 then o.presentment_paid_shipping end as presentment_paid,
       coalesce(sum(r.shipping + r.credit_shipping), 0) as elsewhere,
       coalesce(sum(r.presentment_shipping + r.presentment_credit_shipping), 0)
         as presentment_elsewhere
  from orders o
  left join returns r
    on r.shop_id = o.shop_id and r.order_id = o.id and r.id <> $3
   and (r.state not in ('cancelled', 'expired') or r.id = any($5::bigint[]))
   and r.currency || ' ' || r.presentment_currency = $4
 where o.shop_id = $1 and o.id = $2
 group by o.shop_id, o.id`;

/** What a return refunds and credits for shipping. */
function shippingIn({ shipping, creditShipping }: CheckedSums): bigint {
  return shipping + creditShipping;
}

/** Locks the order until the transaction ends. */
export function lockOrder(tx: Queryable, shopId: bigint, orderId: bigint | undefined) {
  const text = 'select from orders where shop_id = $1 and id = $2 for no key update';
  return tx.query(text, [shopId, orderId]);
}

/**
 * Reads what is left of the shipping that an order paid, for one of its returns, in both currencies. Locks the order
 * until the transaction ends, so that the second of two concurrent returns sees the first.
 *
 * @param openingIds expired returns that the same change opens again. They count, although they are stored as expired.
 * @returns `left` is undefined when it is not known what the order paid.
 */
async function sidesOf(
  tx: Queryable,
  { id, shopId, order, currency, presentmentCurrency }: Return,
  openingIds: readonly bigint[] = [],
) {
  await lockOrder(tx, shopId, order?.id);
  const result = await tx.query<OrderShipping>({
    // Planned at each call, as in `elsewhereOf`.
    text: ORDER_SHIPPING,
    values: [shopId, order?.id, id, `${currency} ${presentmentCurrency}`, openingIds],
  });
  const row = onlyRow(result);
  const sides = [
    ['shop', currency, row.paid, row.elsewhere],
    ['presentment', presentmentCurrency, row.presentment_paid, row.presentment_elsewhere],
  ] as const;
  return sides.map(([side, code, paid, elsewhere]) => {
    const left = paid === null ? undefined : minorOf(paid, code) - minorOf(elsewhere, code);
    return { side, code, left: left !== undefined && left < 0n ? 0n : left };
  });
}

/** Whether a return that is opened again refunds and credits more shipping than is left. */
export async function exceedsPaidShipping(
  tx: Queryable,
  of: Return,
  openingIds: readonly bigint[],
): Promise<boolean> {
  const totals = { shop: of.totals, presentment: of.presentmentTotals };
  const sides = await sidesOf(tx, of, openingIds);
  return sides.some(({ side, code, left }) => {
    const { refundShippingTotal = '0', creditShippingTotal = '0' } = totals[side] ?? {};
    const asked = minorOf(refundShippingTotal, code) + minorOf(creditShippingTotal, code);
    return left !== undefined && asked > left;
  });
}

/**
 * Requires that the returns of an order together refund and credit at most what the order paid for shipping. While that
 * is not known, one return refunds at most 100 times the price of its goods.
 *
 * @param o.lines its line items, with their paths in the request.
 * @throws DomainError INVALID_ARGUMENT
 */
export async function requirePaidShipping(
  tx: Queryable,
  of: Return,
  o: {
    readonly lines: readonly { readonly at: string; readonly sums: Both<LineSums> }[];
    readonly sums: Both<CheckedSums>;
  },
): Promise<void> {
  if (shippingIn(o.sums.shop) + shippingIn(o.sums.presentment) === 0n) return;
  for (const { side, code, left } of await sidesOf(tx, of)) {
    const goods = o.lines.reduce((sum, { sums }) => sum + sums[side].price, 0n);
    const limit = left ?? goods * TIMES_THE_GOODS;
    const most = `must not exceed ${formatAmount(limit, code)} ${code}`;
    const why =
      left === undefined
        ? `${most}, which is ${TIMES_THE_GOODS} times the goods; if the order paid more for shipping, set order_shipping`
        : `${most}, which is left of the shipping that the order paid`;
    let shipping = 0n;
    for (const { at, sums } of o.lines) {
      shipping += sums[side].refundShipping;
      if (shipping > limit) throw invalidField(`${at}.refund_shipping`, why);
    }
    if (shippingIn(o.sums[side]) > limit) {
      throw invalidField('amounts.credit_shipping', why);
    }
  }
}
