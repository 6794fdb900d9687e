import { createHash } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectRouter } from '@connectrpc/connect';
import type pg from 'pg';
import { type CartSchema, CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import { CartCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction, type Queryable } from '../platform/postgres/postgres.ts';
import {
  type RunningService,
  type ServiceOptions,
  type ServiceRuntime,
  startService,
} from '../platform/process/service.ts';
import { startLoop, type Worker } from '../platform/process/worker.ts';
import { parseInput } from '../platform/values/input.ts';
import { cleanText } from '../platform/values/text.ts';
import {
  CART_DAYS,
  type Cart,
  cartNotFound,
  hashOf,
  keyConflict,
  type NewCart,
  newCart,
  randomToken,
  type TokenKeys,
  tokensOf,
} from './cart.ts';

/** Pause between two deletions of old carts. Milliseconds. */
const PURGE_EVERY_MS = 3_600_000;

/** Starts the carts service. It calls no other service. */
export function startCarts(o: ServiceOptions): Promise<RunningService> {
  return startService(
    {
      name: 'carts',
      publishes: true,
      build: (runtime) => ({
        // The keyring also signs events. `PURPOSE` in `cart.ts` separates the two uses.
        routes: cartRoutes({ pool: runtime.pool, tokenKeys: o.EVENT_KEYRING }),
        workers: async () => [startPurge({ ...runtime, pool: runtime.backgroundPool })],
      }),
    },
    o,
  );
}

/**
 * Starts the loop that deletes old carts. It needs no lease, because processes skip rows that another process is
 * deleting.
 */
function startPurge({ pool, logger }: ServiceRuntime): Worker {
  return startLoop({
    name: 'purge carts',
    idleMs: PURGE_EVERY_MS,
    logger,
    step: async () => ((await purgeCarts(pool)) ? 'again' : 'idle'),
  });
}

function cartRoutes(deps: CartDeps): (router: ConnectRouter) => void {
  const { pool } = deps;
  return (router) => {
    router.service(CartsService, {
      async createCart(request) {
        return { cart: toMessage(await createCart(deps, parseInput(newCart, request))) };
      },

      async getCart({ shopId, token }) {
        const found = cleanText(token) ? await findCart(pool, shopId, token) : undefined;
        if (!found) throw cartNotFound();
        return { cart: toMessage(found) };
      },
    });
  };
}

function toMessage(cart: Cart): MessageInitShape<typeof CartSchema> {
  const { shopify, entries, createdAt, ...rest } = cart;
  return {
    ...rest,
    entries: [...entries],
    createdAt: timestampFromDate(createdAt),
    ...(shopify !== undefined && { shopify }),
  };
}

interface CartDeps {
  readonly pool: pg.Pool;
  /** The keys from which the tokens of carts with an idempotency key are derived. */
  readonly tokenKeys: TokenKeys;
}

/**
 * Stores a cart, and appends its event without `shopify`. The token is random; with an idempotency key it is derived
 * from the key. Every caller of the shop who has the token can read the cart, so the table and the event have only its
 * hash. A repeated call with the same idempotency key returns the first cart. Of two concurrent calls, the second waits
 * for the first.
 *
 * @throws DomainError ALREADY_EXISTS for an idempotency key that was used with other content, or whose token was
 *   derived with a key that is no longer in the keyring.
 */
export async function createCart({ pool, tokenKeys }: CartDeps, cart: NewCart): Promise<Cart> {
  const { shopId, idempotencyKey: key } = cart;
  const tokens = key === undefined ? [] : tokensOf(tokenKeys, shopId, key);
  const token = tokens[0] ?? randomToken();
  const tokenHash = createHash('sha256').update(token).digest('hex');
  const value = create(CartCreatedSchema, { token: tokenHash, entries: cart.entries.length });
  return inTransaction(pool, async (tx) => {
    const use = keyUseOf(cart);
    const created = await insertCart(tx, cart, { token, use });
    if (!created) return existingCart(tx, { shopId, use, tokens });
    await appendEvents(tx, [
      {
        trigger: 'cart.created',
        shopId: cart.shopId,
        key: `${cart.shopId}:${tokenHash}`,
        actor: cart.actor,
        detail: { case: 'cart', value },
      },
    ]);
    return created;
  });
}

function keyUseOf(cart: NewCart): KeyUse | undefined {
  const { idempotencyKey: key, entries, shopify, shopifyNull } = cart;
  if (key === undefined) return undefined;
  const variants = entries.map(({ variantId, objectJson }) => [`${variantId}`, objectJson]);
  const content = JSON.stringify([variants, shopify ?? null, shopifyNull]);
  return { key, requestHash: createHash('sha256').update(content).digest() };
}

async function existingCart(
  tx: Queryable,
  o: {
    readonly shopId: bigint;
    readonly use: KeyUse | undefined;
    readonly tokens: readonly string[];
  },
): Promise<Cart> {
  const { use } = o;
  const existing = use && (await findByKey(tx, { ...o, key: use.key }));
  if (!existing) throw new Error('neither this cart nor one with its key was stored');
  if (!existing.requestHash.equals(use.requestHash)) throw keyConflict();
  return existing.cart;
}

interface Row {
  readonly variant_ids: bigint[];
  readonly object_texts: string[];
  readonly shopify: string | null;
  readonly shopify_null: boolean;
  readonly created_at: Date;
}

const COLUMNS = 'variant_ids, object_texts, shopify, shopify_null, created_at';

/** An idempotency key, and the hash of the request that used it. */
interface KeyUse {
  readonly key: string;
  readonly requestHash: Buffer;
}

/** Stores a cart. Returns undefined when a committed cart of the shop has the same idempotency key. */
async function insertCart(
  tx: Queryable,
  cart: NewCart,
  o: { readonly token: string; readonly use: KeyUse | undefined },
): Promise<Cart | undefined> {
  // Do not read the entries back. They are stored as sent, and reading a megabyte costs more than writing it.
  const { rows } = await tx.query<Pick<Row, 'created_at'>>(
    `insert into carts (shop_id, token_hash, variant_ids, object_texts, shopify, shopify_null,
       idempotency_key, request_hash)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
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
async function findByKey(
  db: Queryable,
  o: { readonly shopId: bigint; readonly key: string; readonly tokens: readonly string[] },
): Promise<{ readonly cart: Cart; readonly requestHash: Buffer } | undefined> {
  const { rows } = await db.query<Row & { token_hash: string; request_hash: Buffer }>(
    `select ${COLUMNS}, token_hash, request_hash from carts
      where shop_id = $1 and idempotency_key = $2`,
    [o.shopId, o.key],
  );
  const [row] = rows;
  if (!row) return undefined;
  const token = o.tokens.find((one) => hashOf(one) === row.token_hash);
  if (token === undefined) throw keyConflict();
  return { cart: toCart(row, token), requestHash: row.request_hash };
}

/** Returns the cart with this token. Undefined when the shop has none, or when it has expired. */
async function findCart(db: Queryable, shopId: bigint, token: string): Promise<Cart | undefined> {
  const { rows } = await db.query<Row>(
    `select ${COLUMNS} from carts
      where shop_id = $1 and token_hash = $2
        and created_at > now() - make_interval(days => $3)`,
    [shopId, hashOf(token), CART_DAYS],
  );
  return rows[0] && toCart(rows[0], token);
}

const PURGE_BATCH = 1_000;

/** Deletes a batch of expired carts of any shop. Returns whether there may be more. */
export async function purgeCarts(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    `with old as (
       select shop_id, token_hash from carts
        where created_at <= now() - make_interval(days => $1)
        order by created_at limit $2 for update skip locked
     )
     delete from carts using old where carts.shop_id = old.shop_id and carts.token_hash = old.token_hash`,
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
