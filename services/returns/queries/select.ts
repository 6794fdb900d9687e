import type { Queryable } from '../../platform/postgres.ts';

/** Selects one return. It has the form of the `oneof` in the requests. */
export type Selector =
  | { readonly case: 'returnId' | 'orderId' | 'providerOrderId'; readonly value: bigint }
  | { readonly case: 'orderName'; readonly value: string };

/**
 * Returns for each selector the id of its return; undefined when the shop has none. When an order has several returns,
 * this is the id of the newest return. Order names are compared in their normal form. Runs one statement for each kind
 * of selector.
 *
 * A return id is not checked here. The read that follows finds whether the return exists.
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
    // Skip names with NUL. PostgreSQL rejects such texts, and no stored name has one.
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
                               where o.shop_id = $1 and o.provider_order_id = selected.order_id)`;
// First this service's own id, which is order_id in the details. The provider's id counts only when no own id matches.
const BY_ID = `coalesce(
                             (select o.id from orders o
                               where o.shop_id = $1 and o.id = selected.order_id),
                             ${BY_PROVIDER_ID})`;
const newestOf = (orderId: string) => `
select selected.order_id, newest.id
  from unnest($2::bigint[]) as selected (order_id)
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
    text: `select selected.name, newest.id
             from unnest($2::text[]) as selected (name)
            cross join lateral (
                    select r.id from returns r
                     where r.shop_id = $1 and normal_form(r.order_name) = normal_form(selected.name)
                     order by r.created_at desc, r.id desc limit 1) newest`,
    values: [shopId, names],
  });
  return new Map(rows.map((row) => [row.name, row.id]));
}
