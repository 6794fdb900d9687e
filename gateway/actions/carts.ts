import type { Cart } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import type { CartBody, CartEntryValue } from '../../services/contract/resources/cart.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/** Stores a cart of variants; objects keep all their keys. */
export async function createCart(context: ActionContext, body: CartBody): Promise<Cart> {
  const answer = await context.services.carts.createCart({
    ...callerOf(context),
    entries: body.cart.map(entryOf),
    ...(typeof body.shopify === 'string' && { shopify: body.shopify }),
    shopifyNull: body.shopify === null,
  });
  return sent(answer.cart, 'cart');
}

function entryOf(entry: CartEntryValue) {
  if (typeof entry === 'number') return { variantId: BigInt(entry), objectJson: '' };
  return { variantId: BigInt(Number(entry.variant_id)), objectJson: JSON.stringify(entry) };
}
