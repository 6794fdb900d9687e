import type { Queryable } from '../platform/postgres.ts';
import { CART_DAYS, type Cart, keyConflict, type NewCart } from './cart.ts';
import { hashOf } from './token.ts';

interface Row {
  readonly variant_ids: bigint[];
  readonly object_texts: string[];
  readonly shopify: string | null;
  readonly shopify_null: boolean;
  readonly created_at: Date;
}

const COLUMNS = 'variant_ids, object_texts, shopify, shopify_null, created_at';

/** An idempotency key, and the hash of the request that used it. */
export interface KeyUse {
  readonly key: string;
  readonly requestHash: Buffer;
}

/** Stores a cart. Returns undefined when a committed cart of the shop has the same idempotency key. */
export async function insertCart(
  tx: Queryable,
  cart: NewCart,
  o: { readonly token: string; readonly use: KeyUse | undefined },
): Promise<Cart | undefined> {
  // Do not read the entries back. They are stored as sent, and reading a megabyte costs more than writing it.
  const { rows } = await tx.query<Pick<Row, 'created_at'>>(
    `insert into carts (shop_id, token, variant_ids, object_texts, shopify, shopify_null,
       idempotency_key, request_hash, token_hashed)
     values ($1, $2, $3, $4, $5, $6, $7, $8, true)
     on conflict (shop_id, idempotency_key) where idempotency_key is not null do nothing
     returning created_at`,
    [
      cart.shopId,
      hashOf(o.token),
      cart.entries.map((entry) => entry.variantId),
      cart.entries.map((entry) => entry.objectJson),
      cart.shopify ?? null,
      cart.shopifyNull,
      o.use?.key ?? null,
      o.use?.requestHash ?? null,
    ],
  );
  const { entries, shopify, shopifyNull } = cart;
  const [row] = rows;
  return row && { token: o.token, entries, shopify, shopifyNull, createdAt: row.created_at };
}

/**
 * Returns the cart that was created with an idempotency key, and the hash of its request.
 *
 * @param o.tokens the tokens that can be derived from the idempotency key.
 * @throws DomainError ALREADY_EXISTS when the cart has none of these tokens.
 */
export async function findByKey(
  db: Queryable,
  o: { readonly shopId: bigint; readonly key: string; readonly tokens: readonly string[] },
): Promise<{ readonly cart: Cart; readonly requestHash: Buffer } | undefined> {
  const { rows } = await db.query<
    Row & { token: string; token_hashed: boolean; request_hash: Buffer }
  >(
    `select ${COLUMNS}, token, token_hashed, request_hash from carts
      where shop_id = $1 and idempotency_key = $2`,
    [o.shopId, o.key],
  );
  const [row] = rows;
  if (!row) return undefined;
  // A process of the previous release may have stored the token itself and not its hash.
  const token = row.token_hashed ? o.tokens.find((one) => hashOf(one) === row.token) : row.token;
  if (token === undefined) throw keyConflict();
  return { cart: toCart(row, token), requestHash: row.request_hash };
}

/** Returns the cart with this token. Undefined when the shop has none, or when it has expired. */
export async function findCart(
  db: Queryable,
  shopId: bigint,
  token: string,
): Promise<Cart | undefined> {
  const { rows } = await db.query<Row>(
    `select ${COLUMNS} from carts
      where shop_id = $1 and token in ($2, $3) and token_hashed = (token = $2)
        and created_at > now() - make_interval(days => $4)`,
    [shopId, hashOf(token), token, CART_DAYS],
  );
  return rows[0] && toCart(rows[0], token);
}

/** For this time after a release, processes of the previous release may still insert tokens without hashing them. */
const ROLLOUT_HOURS = 1;

/** Hashes the tokens of carts that a process of the previous release inserted. */
export async function hashLeftTokens(db: Queryable): Promise<void> {
  await db.query(
    `update carts
        set token = rtrim(translate(encode(sha256(convert_to(token, 'UTF8')), 'base64'), '+/', '-_'), '='),
            token_hashed = true, idempotency_key = null, request_hash = null
      where not token_hashed and created_at < now() - make_interval(hours => $1)`,
    [ROLLOUT_HOURS],
  );
}

const PURGE_BATCH = 1_000;

/** Deletes a batch of expired carts of any shop. Returns whether there may be more. */
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

function toCart(row: Row, token: string): Cart {
  return {
    token,
    entries: row.variant_ids.map((variantId, index) => ({
      variantId,
      objectJson: row.object_texts[index] ?? '',
    })),
    shopify: row.shopify ?? undefined,
    shopifyNull: row.shopify_null,
    createdAt: row.created_at,
  };
}
