import type { Queryable } from '../../platform/postgres/postgres.ts';

/** An order, by the provider's id. */
export interface ProviderOrderId {
  readonly shopId: bigint;
  readonly providerOrderId: bigint;
}

/**
 * Locks an order, so that only one transaction at a time counts its units. Such a transaction submits, edits or reopens
 * a return of the order, or records an event about it. The lock is on no row, because this service may not have a row
 * for the order yet.
 */
export async function lockOrder(tx: Queryable, order: ProviderOrderId): Promise<void> {
  await tx.query({
    name: 'inbound-lock-order',
    text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))',
    values: [`order:${order.shopId}:${order.providerOrderId}`],
  });
}

/**
 * Locks an order, and its returns that are open or in review. Adds one to `provider_news` of each of these returns. If
 * this number has changed since processing decided to request money, processing decides again. So the decision includes
 * what the caller records now, unless the money was already requested. Returns are locked before the order, as
 * everywhere.
 */
export async function lockReturnsOfOrder(tx: Queryable, of: ProviderOrderId): Promise<void> {
  await lockRows(tx, of);
  await lockOrder(tx, of);
  // Lock again: a return may have been submitted while this transaction waited for the order.
  await lockRows(tx, of);
}

async function lockRows(
  tx: Queryable,
  { shopId, providerOrderId }: ProviderOrderId,
): Promise<void> {
  await tx.query({
    name: 'inbound-lock-returns',
    text: `with locked as (
             select id from returns
              where shop_id = $1 and state in ('open', 'review')
                and order_id = (select id from orders where shop_id = $1 and provider_order_id = $2)
              order by id for no key update
           )
           update returns r set provider_news = r.provider_news + 1
             from locked where r.shop_id = $1 and r.id = locked.id`,
    values: [shopId, providerOrderId],
  });
}
