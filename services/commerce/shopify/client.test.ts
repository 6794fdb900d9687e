import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  ACCESS,
  exampleShop,
  POLICY,
  SHOP_DOMAIN,
  TOKEN,
} from '../../../test/kit/commerce/shopify/example-shop.ts';
import { type ShopifyServer, startShopify } from '../../../test/kit/commerce/shopify/server.ts';
import { SHOP_PLAN } from './adapter.ts';
import { createShopifyClient, type ShopifyClient } from './client.ts';

const never = new AbortController().signal;
const shop = { shopDomain: SHOP_DOMAIN, ...ACCESS };

let server: ShopifyServer;
let client: ShopifyClient;
async function start(points: { readonly maximum: number; readonly restoreRate: number }) {
  server = await startShopify({ shop: exampleShop(), token: TOKEN, points });
  client = createShopifyClient({ policy: POLICY, origin: server.origin });
}
beforeEach(() => {
  client = createShopifyClient({ policy: { ...POLICY, allowedOrigins: [] } });
});
afterEach(async () => {
  await client.close();
  await server?.stop();
});

const ask = (of = shop) =>
  client.run({ shop: of, operation: SHOP_PLAN, variables: {}, signal: never });

describe('the rate limit', () => {
  test('is waited for before a request', async () => {
    await start({ maximum: 5, restoreRate: 50 });
    for (let sent = 0; sent < 5; sent += 1) await ask();
    expect(server.operations).toHaveLength(5);
  });

  test('that needs a long pause ends the request before it is sent, and says when', async () => {
    await start({ maximum: 7, restoreRate: 0.1 });
    await ask();
    const failed = { kind: 'passing', isUnsent: true, retryAfterMs: expect.any(Number) };
    await expect(ask()).rejects.toMatchObject(failed);
    expect(server.operations).toHaveLength(1);
  });

  test('is one for each shop', async () => {
    await start({ maximum: 1_000, restoreRate: 0.001 });
    for (let sent = 0; sent < 200; sent += 1) await ask();
    await expect(ask()).rejects.toMatchObject({ isUnsent: true });
    const other = { ...shop, shopDomain: 'another.myshopify.com' };
    // This one reaches the server, which has one limit.
    const failed = 'Shopify: THROTTLED: Throttled';
    await expect(ask(other)).rejects.toThrow(failed);
  });
});

test.each(['127.0.0.1', 'example.com', 'a.myshopify.com.example.com', 'a.myshopify.com/x?'])(
  'the token is not sent to %s',
  async (shopDomain) => {
    const failed = { kind: 'passing', isUnsent: true, message: expect.stringContaining('domain') };
    await expect(ask({ ...shop, shopDomain })).rejects.toMatchObject(failed);
  },
);
