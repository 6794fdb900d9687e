import { create } from '@bufbuild/protobuf';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { CHECK_KEYS, type ProviderOrder, type ProviderRefund } from '../../commerce/provider.ts';
import { isOwnRefund } from '../../commerce/reported-refunds.ts';
import { isUnknownOutcome } from '../../commerce/unknown-outcomes.ts';
import { COMMERCE_LINES_MAX } from '../../contract/limits.ts';
import { onlyRow } from '../../platform/postgres/only-row.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { systemActor } from '../../platform/security/identity.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { addTimeline, type NewTimelineEntry } from '../store/timeline-store.ts';
import { lockReturnsOfOrder, type ProviderOrderId } from './lock-order.ts';

/**
 * Records the state of an order at the provider. A state that is older than the recorded one changes nothing, so events
 * may arrive repeatedly and in any order. When the order is cancelled for the first time, each of its returns that is
 * open or in review gets a timeline entry.
 *
 * @returns whether the state was recorded.
 * @throws DomainError INVALID_ARGUMENT for too many lines.
 */
export async function recordOrder(tx: Queryable, order: ProviderOrder): Promise<boolean> {
  requireLines(order.lines);
  await lockReturnsOfOrder(tx, order);
  const before = await recorded(tx, order);
  if (before && before.updatedAt > order.updatedAt) return false;
  await storeOrder(tx, order);
  await storeLines(tx, order);
  if (order.cancelledAt && !before?.cancelledAt) {
    const text = 'The order was cancelled at the commerce provider';
    const news = { kind: 'order.cancelled_at_provider', text, facts: {} };
    const by = { shopId: order.shopId, actor: COMMERCE_ACTOR };
    await addTimeline(tx, by, await newsOf(tx, order, news));
  }
  return true;
}

async function recorded(tx: Queryable, { shopId, providerOrderId }: ProviderOrder) {
  const { rows } = await tx.query<{ updatedAt: Date; cancelledAt: Date | null }>(
    `select provider_updated_at as "updatedAt", cancelled_at as "cancelledAt"
       from inbound_orders where shop_id = $1 and provider_order_id = $2`,
    [shopId, providerOrderId],
  );
  return rows[0];
}

async function storeOrder(tx: Queryable, order: ProviderOrder): Promise<void> {
  const { shopId, providerOrderId, name, updatedAt, cancelledAt } = order;
  // Two states with the same time may arrive in either order. When the order is cancelled in one of them, it stays
  // cancelled.
  await tx.query(
    `insert into inbound_orders as known (shop_id, provider_order_id, name, cancelled_at, provider_updated_at)
     values ($1, $2, $3, $4, $5)
     on conflict (shop_id, provider_order_id) do update
     set name = excluded.name, received_at = now(),
         provider_updated_at = excluded.provider_updated_at,
         cancelled_at = case when known.provider_updated_at = excluded.provider_updated_at
           then coalesce(excluded.cancelled_at, known.cancelled_at) else excluded.cancelled_at end`,
    [shopId, providerOrderId, name, cancelledAt ?? null, updatedAt],
  );
}

async function storeLines(tx: Queryable, order: ProviderOrder): Promise<void> {
  const rows = order.lines.map(({ providerLineItemId, quantity }) => ({
    line: providerLineItemId.toString(),
    quantity,
  }));
  await tx.query(
    `with given as (
       select line, sum(quantity) as quantity
         from jsonb_to_recordset($3::jsonb) as g (line bigint, quantity bigint) group by line
     ), gone as (
       update inbound_order_lines set quantity = 0
        where shop_id = $1 and provider_order_id = $2
          and provider_line_item_id not in (select line from given)
     )
     insert into inbound_order_lines (shop_id, provider_order_id, provider_line_item_id, quantity)
     select $1, $2, line, quantity from given
     on conflict (shop_id, provider_order_id, provider_line_item_id) do update
     set quantity = excluded.quantity`,
    [order.shopId, order.providerOrderId, JSON.stringify(rows)],
  );
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

/** The actor of changes that a provider reports. */
const COMMERCE_ACTOR = create(ActorSchema, systemActor('commerce'));

/** Checks the number of lines. @throws DomainError INVALID_ARGUMENT */
function requireLines(lines: readonly unknown[]): void {
  if (lines.length <= COMMERCE_LINES_MAX) return;
  throw invalidField('lines', `must hold at most ${COMMERCE_LINES_MAX} lines`);
}

/** An event about an order at the provider, as a timeline entry. */
interface News {
  readonly kind: string;
  readonly text: string;
  readonly facts: Readonly<Record<string, string>>;
  /** Only returns with one of these lines get the entry; absent or empty for all returns of the order. */
  readonly lines?: readonly bigint[];
}

/**
 * Adds one timeline entry to each return of the order that is open or in review and has one of `news.lines`. The caller
 * must have locked the returns.
 */
async function newsOf(tx: Queryable, of: ProviderOrderId, news: News): Promise<NewTimelineEntry[]> {
  const { kind, text, facts, lines = [] } = news;
  const { rows } = await tx.query<{ id: bigint }>(
    `select r.id from returns r
      where r.shop_id = $1 and r.state in ('open', 'review')
        and r.order_id = (select id from orders where shop_id = $1 and provider_order_id = $2)
        and ($3::bigint[] = '{}' or exists (
          select from return_lines l
           where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
             and l.provider_line_item_id = any($3::bigint[])))
      order by r.id`,
    [of.shopId, of.providerOrderId, lines],
  );
  return rows.map(({ id }) => ({ returnId: id, kind, text, facts }));
}
