import type { Cart } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import type { CartBody, CartEntryValue } from '../../services/contract/resources/cart.ts';
import { numberOf } from '../../services/contract/validate/exact-json.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/**
 * Stores a cart with variants. When the request has an object for a variant, the cart keeps all fields of the object.
 *
 * @param key idempotency key of at most 200 characters; a repeat with the same key returns the first cart.
 */
export async function createCart(
  context: ActionContext,
  body: CartBody,
  key: string,
): Promise<Cart> {
  const { cart } = await context.services.carts.createCart({
    ...callerOf(context),
    entries: body.cart.map(entryOf),
    ...(typeof body.shopify === 'string' && { shopify: body.shopify }),
    shopifyNull: body.shopify === null,
    idempotencyKey: key,
  });
  return sent(cart, 'cart');
}

/**
 * Reads a cart by its token, which is a secret. Rejects with CART_NOT_FOUND when no cart of the shop has this token.
 */
export async function getCart(context: ActionContext, token: string): Promise<Cart> {
  const { cart } = await context.services.carts.getCart({ ...callerOf(context), token });
  return sent(cart, 'cart');
}

function entryOf(entry: CartEntryValue) {
  const number = numberOf(entry);
  if (number !== undefined) return { variantId: BigInt(number), objectJson: '' };
  const variantId = BigInt(numberOf(Reflect.get(Object(entry), 'variant_id')) ?? 0);
  return { variantId, objectJson: JSON.stringify(entry) };
}
