import type { Queryable } from '../platform/postgres.ts';
import { CART_DAYS, type Cart, type NewCart } from './cart.ts';

interface Row {
  readonly token: string;
  readonly variant_ids: bigint[];
  readonly object_texts: string[];
  readonly shopify: string | null;
  readonly shopify_null: boolean;
  readonly created_at: Date;
}

const COLUMNS = 'token, variant_ids, object_texts, shopify, shopify_null, created_at';

export async function insertCart(tx: Queryable, cart: NewCart, token: string): Promise<Cart> {
  const { rows } = await tx.query<Row>(
    `insert into carts (shop_id, token, variant_ids, object_texts, shopify, shopify_null)
     values ($1, $2, $3, $4, $5, $6)
     returning ${COLUMNS}`,
    [
      cart.shopId,
      token,
      cart.entries.map((entry) => entry.variantId),
      cart.entries.map((entry) => entry.objectJson),
      cart.shopify ?? null,
      cart.shopifyNull,
    ],
  );
  const [row] = rows;
  if (!row) throw new Error('the statement answered no row');
  return toCart(row);
}

/** undefined when the shop has no cart with that token that is young enough. */
export async function findCart(
  db: Queryable,
  shopId: bigint,
  token: string,
): Promise<Cart | undefined> {
  const { rows } = await db.query<Row>(
    `select ${COLUMNS} from carts
      where shop_id = $1 and token = $2 and created_at > now() - make_interval(days => $3)`,
    [shopId, token, CART_DAYS],
  );
  return rows[0] && toCart(rows[0]);
}

const PURGE_BATCH = 1_000;

/** Deletes some carts that are too old, of any shop, and says whether there may be more. */
export async function purgeCarts(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `with old as (
       select shop_id, token from carts
        where created_at <= now() - make_interval(days => $1)
        order by created_at limit $2 for update skip locked
     )
     delete from carts using old where carts.shop_id = old.shop_id and carts.token = old.token`,
    [CART_DAYS, PURGE_BATCH],
  );
  return rowCount === PURGE_BATCH;
}

function toCart(row: Row): Cart {
  return {
    token: row.token,
    entries: row.variant_ids.map((variantId, index) => ({
      variantId,
      objectJson: row.object_texts[index] ?? '',
    })),
    shopify: row.shopify ?? undefined,
    shopifyNull: row.shopify_null,
    createdAt: row.created_at,
  };
}
