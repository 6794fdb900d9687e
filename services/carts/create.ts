import { createHash, randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { CartCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction } from '../platform/postgres.ts';
import type { Cart, NewCart } from './cart.ts';
import { insertCart } from './store.ts';

const TOKEN_BYTES = 32;

/**
 * Stores a cart under a token nobody can guess, and tells of it without its `shopify`. Whoever has
 * the token may read the cart, so the event names it by the token's hash.
 */
export async function createCart(pool: pg.Pool, cart: NewCart): Promise<Cart> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const tokenHash = createHash('sha256').update(token).digest('hex');
  const value = create(CartCreatedSchema, { token: tokenHash, entries: cart.entries.length });
  return inTransaction(pool, async (tx) => {
    const created = await insertCart(tx, cart, token);
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
