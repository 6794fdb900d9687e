import type { z } from 'zod';
import type { CartObject, cartBody } from '../resources/cart.ts';
import type { OperationExample } from './example.ts';

const body = {
  cart: [50_001, { variant_id: 50_002, quantity: 2 }],
  shopify: Buffer.from('{"note":"Gift"}').toString('base64'),
} satisfies z.input<typeof cartBody>;
const cart: CartObject = {
  token: Buffer.from('an example of the documents only').toString('base64url'),
  data: body,
};

export const CART_EXAMPLES = {
  createCart: { request: body, response: cart, invalid: { cart: ['50001'] } },
  getCart: { response: cart },
} satisfies Record<string, OperationExample>;
