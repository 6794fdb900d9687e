import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { CartCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction, type Queryable } from '../platform/postgres.ts';
import { type Cart, keyConflict, type NewCart } from './cart.ts';
import { findByKey, insertCart, type KeyUse } from './store.ts';
import { randomToken, type TokenKeys, tokensOf } from './token.ts';

export interface CartDeps {
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
