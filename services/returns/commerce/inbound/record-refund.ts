import { onlyRow } from '../../../platform/only-row.ts';
import type { Queryable } from '../../../platform/postgres.ts';
import { addTimeline } from '../../store/timeline-store.ts';
import { isUnknownOutcome } from '../known-outcomes.ts';
import { CHECK_KEYS } from '../provider.ts';
import { lockReturnsOfOrder } from './lock-order.ts';
import { COMMERCE_ACTOR, newsOf, requireLines } from './news.ts';
import { isOwnRefund } from './reported-refunds.ts';

/** A refund at the provider. */
export interface ProviderRefund {
  readonly shopId: bigint;
  /**
   * Id of the refund. It has the same form as the id of a refund that processing requested (`Effect.id`), so that both
   * can be compared.
   */
  readonly providerRefundId: string;
  readonly providerOrderId: bigint;
  /** The key of this service's request that made the refund; empty when the provider reports none. */
  readonly key: string;
  readonly refundedAt: Date;
  /** Decimal text, in {@link ProviderRefund.currency}. */
  readonly amount: string;
  readonly currency: string;
  /** The refunded lines, at most COMMERCE_LINES_MAX. Empty, for example, for a refund of shipping. */
  readonly lines: readonly {
    readonly providerLineItemId: bigint;
    /** Number of refunded units. It is 0 for a refund of a part of the price, which does not count as returned. */
    readonly quantity: number;
    readonly amount: string;
  }[];
}

/**
 * Records a refund that was made at the provider. A refund never changes, so recording it again changes nothing. If
 * this service did not request the refund, returns of the order get a timeline entry: those that are open or in review
 * and have one of the refunded lines. For a refund without lines, all returns of the order that are open or in review
 * get one.
 *
 * @returns whether the refund was new.
 * @throws DomainError INVALID_ARGUMENT for too many lines.
 */
export async function recordRefund(tx: Queryable, refund: ProviderRefund): Promise<boolean> {
  requireLines(refund.lines);
  // Ignore refunds of `commerce check`, which move no money.
  if (refund.key.startsWith(CHECK_KEYS)) return false;
  await lockReturnsOfOrder(tx, refund);
  if (!(await storeRefund(tx, refund))) return false;
  if (await mayBeOwn(tx, refund)) return true;
  const { amount, currency, providerRefundId, lines } = refund;
  const text = `${amount} ${currency} was refunded at the commerce provider, not by this service`;
  const units = lines.map((line) => `${line.providerLineItemId}: ${line.quantity}`).join(', ');
  const news = await newsOf(tx, refund, {
    kind: 'order.refunded_at_provider',
    text,
    facts: { amount, currency, provider_id: providerRefundId, ...(units === '' ? {} : { units }) },
    lines: lines.map((line) => line.providerLineItemId),
  });
  await addTimeline(tx, { shopId: refund.shopId, actor: COMMERCE_ACTOR }, news);
  return true;
}

async function storeRefund(tx: Queryable, refund: ProviderRefund): Promise<boolean> {
  const { shopId, providerRefundId, key, amount, currency, refundedAt, lines } = refund;
  const { rowCount } = await tx.query(
    `insert into inbound_refunds
       (shop_id, provider_refund_id, provider_order_id, key, amount, currency, refunded_at)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (shop_id, provider_refund_id) do nothing`,
    [shopId, providerRefundId, refund.providerOrderId, key, amount, currency, refundedAt],
  );
  if (rowCount !== 1) return false;
  const rows = lines.map((line) => ({ ...line, line: line.providerLineItemId.toString() }));
  const stored = rows.map(({ line, quantity, amount: value }) => ({ line, quantity, value }));
  await tx.query(
    `insert into inbound_refund_lines
       (shop_id, provider_refund_id, provider_line_item_id, quantity, amount)
     select $1, $2, line, sum(quantity), sum(value)
       from jsonb_to_recordset($3::jsonb) as g (line bigint, quantity bigint, value numeric)
      group by line`,
    [shopId, providerRefundId, JSON.stringify(stored)],
  );
  return true;
}

/**
 * Whether processing requested the refund, or may have: a request for the same amount waits for its answer. The second
 * case matters only for the timeline, because the refund is recognized when the answer is recorded.
 */
async function mayBeOwn(tx: Queryable, refund: ProviderRefund): Promise<boolean> {
  const { shopId, providerRefundId, providerOrderId, amount, currency } = refund;
  const result = await tx.query<{ own: boolean }>(
    `select ${isOwnRefund('f')} or f.key = '' and exists (
              select from processing_outcomes p
                join returns r on r.shop_id = p.shop_id and r.id = p.return_id
                join orders o on o.shop_id = r.shop_id and o.id = r.order_id
               where p.shop_id = $1 and o.provider_order_id = $3 and p.kind = 'refund'
                 and ${isUnknownOutcome('p')}
                 and p.amount = $4 and p.currency = $5) as own
       from inbound_refunds f where f.shop_id = $1 and f.provider_refund_id = $2`,
    [shopId, providerRefundId, providerOrderId, amount, currency],
  );
  return onlyRow(result).own;
}
