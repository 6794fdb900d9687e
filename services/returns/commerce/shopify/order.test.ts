import { afterEach, beforeEach, expect, test } from '@jest/globals';
import {
  ACCESS,
  exampleShop,
  POLICY,
  SHOP_DOMAIN,
  TOKEN,
} from '../../../../test/kit/commerce/shopify/example-shop.ts';
import { type ShopifyServer, startShopify } from '../../../../test/kit/commerce/shopify/server.ts';
import { createShopifyClient, type ShopifyClient } from './client.ts';
import { findOrder } from './order.ts';

const never = new AbortController().signal;
const shop = { shopDomain: SHOP_DOMAIN, ...ACCESS };
const find = (name: string) => findOrder(client, shop, { name, signal: never });

let server: ShopifyServer;
let client: ShopifyClient;
beforeEach(async () => {
  server = await startShopify({ shop: exampleShop(), token: TOKEN });
  client = createShopifyClient({ policy: POLICY, origin: server.origin });
});
afterEach(async () => {
  await client.close();
  await server.stop();
});

test('an order has its lines, and their prices in both currencies', async () => {
  expect(await find('#1001')).toEqual({
    id: 445n,
    name: '#1001',
    currencies: { shop: 'GBP', presentment: 'JPY' },
    lines: [
      {
        id: 9001n,
        title: 'MUG-1',
        sku: 'MUG-1',
        productId: undefined,
        variantId: 9001n,
        quantity: 2,
        returnable: 2,
        paid: {
          shop: { price: 2_000n, discount: 0n, tax: 0n },
          presentment: { price: 3_100n, discount: 0n, tax: 0n },
        },
        left: { units: 2 },
      },
    ],
  });
});

test.each(['#100', '#1002', '" OR name:#1001', ''])('there is no order %j', async (name) => {
  expect(await find(name)).toBeUndefined();
});

test.each([
  [250, 'has all its lines'],
  [501, 'is rejected'],
])('an order with %d lines %s', async (count) => {
  const large = exampleShop();
  const order = large.orders.get(445n);
  if (!order) throw new Error('no order');
  const lines = Array.from({ length: count }, (_, index) => ({
    id: BigInt(index + 1),
    sku: 'MUG',
    quantity: 1,
    price: '1',
    shopPrice: '0.01',
  }));
  large.orders.set(445n, { ...order, lines });
  await server.stop();
  server = await startShopify({ shop: large, token: TOKEN });
  await client.close();
  client = createShopifyClient({ policy: POLICY, origin: server.origin });
  if (count > 500) return expect(find('#1001')).rejects.toMatchObject({ kind: 'final' });
  const ids = (await find('#1001'))?.lines.map(({ id }) => id);
  expect(ids).toEqual(lines.map(({ id }) => id));
});
