import { createHash, randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { CartCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction, type Queryable } from '../platform/postgres.ts';
import { type Cart, keyConflict, type NewCart } from './cart.ts';
import { findByKey, insertCart, type KeyUse } from './store.ts';

const TOKEN_BYTES = 32;

/**
 * Stores a cart under a token nobody can guess, and tells of it without its `shopify`. Whoever has
 * the token may read the cart, so the event names it by the token's hash. A repeat with the same key
 * answers the first cart; of two at once the second waits for it.
 *
 * @throws DomainError ALREADY_EXISTS for a key that was used with other content.
 */
export async function createCart(pool: pg.Pool, cart: NewCart): Promise<Cart> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const tokenHash = createHash('sha256').update(token).digest('hex');
  const value = create(CartCreatedSchema, { token: tokenHash, entries: cart.entries.length });
  return inTransaction(pool, async (tx) => {
    const use = keyUseOf(cart);
    const created = await insertCart(tx, cart, { token, use });
    if (!created) return madeBefore(tx, cart.shopId, use);
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

async function madeBefore(tx: Queryable, shopId: bigint, use: KeyUse | undefined): Promise<Cart> {
  const former = use && (await findByKey(tx, shopId, use.key));
  if (!former) throw new Error('neither this cart nor one with its key was stored');
  if (!former.requestHash.equals(use.requestHash)) throw keyConflict();
  return former.cart;
}
