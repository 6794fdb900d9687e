import type { Queryable } from '../../platform/postgres.ts';

/** What says which return is meant; shaped as the oneof of the requests. */
export type Selector =
  | { readonly case: 'returnId' | 'orderId' | 'providerOrderId'; readonly value: bigint }
  | { readonly case: 'orderName'; readonly value: string };

/**
 * The id of the return that each selector means, of several of one order the newest; undefined where
 * the shop has none. One statement for each kind of selector that needs one, however many.
 *
 * An id is answered as it is: whether there is such a return, reading it tells.
 */
export async function selectReturns(
  db: Queryable,
  shopId: bigint,
  selectors: readonly Selector[],
): Promise<(bigint | undefined)[]> {
  const orderIds = new Set<bigint>();
  const providerOrderIds = new Set<bigint>();
  const names = new Set<string>();
  for (const selector of selectors) {
    if (selector.case === 'orderId') orderIds.add(selector.value);
    if (selector.case === 'providerOrderId') providerOrderIds.add(selector.value);
    // No text column holds NUL, and the database would refuse the question.
    if (selector.case === 'orderName' && !selector.value.includes('\0')) names.add(selector.value);
  }
  const byOrder = await newestOfOrders(db, shopId, { ids: [...orderIds], byProviderId: false });
  const byProviderOrder = await newestOfOrders(db, shopId, {
    ids: [...providerOrderIds],
    byProviderId: true,
  });
  const byName = await newestNamed(db, shopId, [...names]);
  return selectors.map((selector) => {
    switch (selector.case) {
      case 'returnId':
        return selector.value;
      case 'orderId':
        return byOrder.get(selector.value);
      case 'providerOrderId':
        return byProviderOrder.get(selector.value);
      case 'orderName':
        return byName.get(selector.value);
      default:
        return selector satisfies never;
    }
  });
}

const BY_PROVIDER_ID = `(select o.id from orders o
                               where o.shop_id = $1 and o.provider_order_id = asked.order_id)`;
// What the details answered as order_id reads back; the provider's id counts only where we have no such order.
const BY_ID = `coalesce(
                             (select o.id from orders o
                               where o.shop_id = $1 and o.id = asked.order_id),
                             ${BY_PROVIDER_ID})`;
const newestOf = (orderId: string) => `
select asked.order_id, newest.id
  from unnest($2::bigint[]) as asked (order_id)
 cross join lateral (
         select r.id
           from returns r
          where r.shop_id = $1 and r.order_id = ${orderId}
          order by r.created_at desc, r.id desc limit 1) newest`;

async function newestOfOrders(
  db: Queryable,
  shopId: bigint,
  orders: { readonly ids: readonly bigint[]; readonly byProviderId: boolean },
): Promise<Map<bigint, bigint>> {
  if (orders.ids.length === 0) return new Map();
  const { rows } = await db.query<{ order_id: bigint; id: bigint }>({
    name: orders.byProviderId ? 'find-by-provider-order-ids' : 'find-by-order-ids',
    text: newestOf(orders.byProviderId ? BY_PROVIDER_ID : BY_ID),
    values: [shopId, orders.ids],
  });
  return new Map(rows.map((row) => [row.order_id, row.id]));
}

async function newestNamed(
  db: Queryable,
  shopId: bigint,
  names: readonly string[],
): Promise<Map<string, bigint>> {
  if (names.length === 0) return new Map();
  const { rows } = await db.query<{ name: string; id: bigint }>({
    name: 'find-by-order-names',
    text: `select asked.name, newest.id
             from unnest($2::text[]) as asked (name)
            cross join lateral (
                    select r.id from returns r
                     where r.shop_id = $1 and r.order_name = asked.name
                     order by r.created_at desc, r.id desc limit 1) newest`,
    values: [shopId, names],
  });
  return new Map(rows.map((row) => [row.name, row.id]));
}
