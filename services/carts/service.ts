import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectRouter } from '@connectrpc/connect';
import { type CartSchema, CartsService } from '../../proto/gen/rms/carts/v1/carts_pb.ts';
import { parseInput } from '../platform/input.ts';
import { cleanText } from '../platform/text.ts';
import { type Cart, cartNotFound, newCart } from './cart.ts';
import { type CartDeps, createCart } from './create.ts';
import { findCart } from './store.ts';

export function cartRoutes(deps: CartDeps): (router: ConnectRouter) => void {
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
