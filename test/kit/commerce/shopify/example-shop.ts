import { newShopifyShop, type Shop } from './shop.ts';

export const POLICY = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] };
export const SHOP_DOMAIN = 'example.myshopify.com';
export const TOKEN = 'shpat_of_a_test';
export const ACCESS = { accessToken: TOKEN, codeSecret: 'codes_of_a_test' };

/** A shop with the order 445, named #1001, that was paid with 3100 yen for two mugs. */
export function exampleShop(): Shop {
  const shop = newShopifyShop();
  shop.orders.set(445n, {
    id: 445n,
    name: '#1001',
    currency: 'JPY',
    paid: '3100',
    customerId: 12n,
    lines: [{ id: 9001n, sku: 'MUG-1', quantity: 2, price: '1550', shopPrice: '10.00' }],
  });
  return shop;
}
