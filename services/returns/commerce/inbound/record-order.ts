import type { Queryable } from '../../../platform/postgres.ts';
import { addTimeline } from '../../store/timeline-store.ts';
import { lockReturnsOfOrder } from './lock-order.ts';
import { COMMERCE_ACTOR, newsOf, requireLines } from './news.ts';

/** The current state of an order at the provider. */
export interface ProviderOrder {
  readonly shopId: bigint;
  readonly providerOrderId: bigint;
  /** Name of the order, at most 191 characters; may be empty. */
  readonly name: string;
  /** The time of this state, by the provider. */
  readonly updatedAt: Date;
  /** When the order was cancelled; undefined when it is not. */
  readonly cancelledAt: Date | undefined;
  /** All lines of the order. There are at most COMMERCE_LINES_MAX. */
  readonly lines: readonly {
    readonly providerLineItemId: bigint;
    /** Number of ordered units. Units that were refunded later count, too. */
    readonly quantity: number;
  }[];
}

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
