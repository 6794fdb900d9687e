import type { Cart, CartEntry } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { parseExactJson } from '../exact-json.ts';
import type { CartObject } from '../resources/cart.ts';

/** A cart in responses (interface: Cart). `data` repeats the request. It has `shopify` only when the request had it. */
export function cartView(cart: Cart): CartObject {
  const data = { cart: cart.entries.map(entryView) };
  if (cart.shopifyNull) return { token: cart.token, data: { ...data, shopify: null } };
  if (cart.shopify === undefined) return { token: cart.token, data };
  return { token: cart.token, data: { ...data, shopify: cart.shopify } };
}

function entryView(entry: CartEntry): unknown {
  return entry.objectJson === '' ? Number(entry.variantId) : parseExactJson(entry.objectJson);
}
