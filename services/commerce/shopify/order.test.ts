import { afterEach, beforeEach, expect, test } from '@jest/globals';
import {
  ACCESS,
  exampleShop,
  POLICY,
  SHOP_DOMAIN,
  TOKEN,
} from '../../../test/kit/commerce/shopify/example-shop.ts';
import { type ShopifyServer, startShopify } from '../../../test/kit/commerce/shopify/server.ts';
import type {
  MadeRefund,
  Shop,
  ShopLine,
  ShopOrder,
} from '../../../test/kit/commerce/shopify/shop.ts';
import type { LineValue } from '../../platform/values/line-value.ts';
import { createShopifyClient, type ShopifyClient } from './client.ts';
import { findOrder } from './order.ts';

const never = new AbortController().signal;
const shop = { shopDomain: SHOP_DOMAIN, ...ACCESS };
const find = (by: string | bigint) =>
  findOrder(
    {
      ...ACCESS,
      signal: never,
      run: (operation, variables) => client.run({ shop, operation, variables, signal: never }),
    },
    typeof by === 'string' ? { name: by } : { id: by },
  );

let server: ShopifyServer;
let client: ShopifyClient;
let bought: Shop;
beforeEach(async () => {
  bought = exampleShop();
  server = await startShopify({ shop: bought, token: TOKEN });
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
    orderedAt: expect.any(Date),
    lines: [
      {
        id: 9001n,
        title: 'MUG-1',
        sku: 'MUG-1',
        productId: undefined,
        variantId: 9001n,
        kind: 'product',
        shipped: 2,
        quantity: 2,
        returnable: 2,
        paid: {
          shop: { price: 2_000n, discount: 0n, tax: 0n },
          presentment: { price: 3_100n, discount: 0n, tax: 0n },
        },
        left: { units: 2, totals: { shop: 2_000n, presentment: 3_100n } },
        refunds: [],
      },
    ],
    shipping: {
      paid: { shop: 0n, presentment: 0n },
      left: { shop: 0n, presentment: 0n },
      refunds: [],
    },
    otherRefunds: [],
    unpaid: { shop: 0n, presentment: 0n },
  });
});

const bothWith = (paid: LineValue) => ({ shop: paid, presentment: paid });
const same = (amount: string) => ({ shop: amount, presentment: amount });
const bothOf = (minor: bigint) => ({ shop: minor, presentment: minor });
/** Orders in the currency of the shop, with 3 units for 30.00. */
const MUGS: ShopLine = { id: 9001n, sku: 'MUG', quantity: 3, price: '10.00', shopPrice: '10.00' };
const order = (more: Partial<ShopOrder>): ShopOrder => ({
  id: 445n,
  name: '#1001',
  currency: 'GBP',
  paid: '1000.00',
  customerId: undefined,
  lines: [{ ...MUGS, taxes: [] }],
  ...more,
});
const refundOf = (more: Partial<MadeRefund>): MadeRefund => ({
  id: 7n,
  orderId: 445n,
  note: 'Sorry',
  amount: '10.00',
  currency: 'GBP',
  createdAt: new Date(),
  shownAt: 0,
  gateway: 'shopify_payments',
  lines: [{ id: 9001n, quantity: 1 }],
  status: 'SUCCESS',
  ...more,
});
async function found(more: Partial<ShopOrder>, refunds: readonly MadeRefund[] = []) {
  bought.orders.set(445n, order(more));
  bought.refunds.push(...refunds);
  const read = await find('#1001');
  const [line] = read?.lines ?? [];
  if (!read || !line) throw new Error('no order');
  return { ...line, shipping: read.shipping, others: read.otherRefunds, unpaid: read.unpaid };
}

test.each([
  ['added to prices', false, { price: 3_000n, discount: 500n, tax: 206n }],
  ['included in prices', true, { price: 2_794n, discount: 500n, tax: 206n }],
])('taxes that are %s are paid once, after all discounts', async (_, taxesIncluded, paid) => {
  const discounts = [same('3.00'), same('2.00')];
  const taxes = [same('1.56'), same('0.50')];
  const line = await found({ taxesIncluded, lines: [{ ...MUGS, discounts, taxes }] });
  expect(line.paid).toEqual(bothWith(paid));
});

test.each([
  [false, { price: 3_000n, discount: 0n, tax: 400n }],
  [true, { price: 2_600n, discount: 0n, tax: 400n }],
])('duties count as tax (included in prices: %j)', async (dutiesIncluded, paid) => {
  const duties = [same('4.00')];
  const line = await found({ dutiesIncluded, lines: [{ ...MUGS, taxes: [], duties }] });
  expect(line.paid).toEqual(bothWith(paid));
});

test.each<[string, Partial<ShopLine>, number]>([
  ['shipped goods', {}, 3],
  ['goods of which one was not shipped', { unfulfilled: 1 }, 2],
  ['goods that were not shipped', { unfulfilled: 3 }, 0],
  ['gift cards', { kind: 'gift card' }, 0],
  ['tips', { kind: 'tip' }, 0],
])('of %s, the units that may come back', async (_, more, returnable) => {
  const line = await found({ lines: [{ ...MUGS, taxes: [], ...more }] });
  expect(line).toMatchObject({ returnable, quantity: 3, left: { units: 3 } });
});

test('units and amounts that the merchant refunded are not left', async () => {
  const taxed = { ...MUGS, quantity: 3, discounts: [same('10.00')], taxes: [same('4.00')] };
  const line = await found({ lines: [taxed] }, [refundOf({})]);
  // One unit: 6.67 and 1.33 tax, of 24.00.
  expect(line).toMatchObject({ returnable: 2, refunds: [{ id: '7', key: '', units: 1 }] });
  expect(line.left).toEqual({ units: 2, totals: bothOf(1_600n) });
});

test.each<[string, Partial<MadeRefund>, bigint]>([
  ['goodwill, beside a unit', { amount: '15.00' }, 500n],
  ['goodwill alone', { amount: '15.00', lines: [] }, 1_500n],
  ['less than the unit', { amount: '8.00' }, 0n],
])('what a refund paid for no line: %s', async (_, more, other) => {
  const { others } = await found({}, [refundOf(more)]);
  expect(others).toEqual([{ id: '7', key: '', value: bothOf(other) }]);
});

test('an amount with more decimals than its currency is an error of Shopify, and not of this service', async () => {
  const dutied = { ...MUGS, taxes: [], duties: [same('1.565')] };
  await expect(found({ lines: [dutied] })).rejects.toMatchObject({
    kind: 'final',
    message: 'Shopify: its answer has 1.565 GBP; this currency has 2 decimals',
  });
});

test.each([
  ['12.50', 1_250n],
  ['-3.00', 0n],
])('of an order with %s outstanding, the shopper has not paid %s', async (outstanding, unpaid) => {
  const line = await found({ outstanding: same(outstanding) });
  expect(line.unpaid).toEqual(bothOf(unpaid));
});

test('refunded duties of a line are not left', async () => {
  const dutied = { ...MUGS, taxes: [], duties: [same('6.00')] };
  const duties = [{ line: 9001n, amount: same('2.00') }];
  const line = await found({ lines: [dutied] }, [refundOf({ amount: '12.00', duties })]);
  expect(line.left).toEqual({ units: 2, totals: bothOf(2_400n) });
  expect(line.others).toEqual([{ id: '7', key: '', value: bothOf(0n) }]);
});

test('a refund that this service requested has its key', async () => {
  const line = await found({}, [refundOf({ note: 'Return 8 (rms:return:8:refund)' })]);
  expect(line.left).toEqual({ units: 2, totals: bothOf(2_000n) });
  expect(line.refunds).toEqual([
    { id: '7', key: 'rms:return:8:refund', units: 1, value: bothOf(1_000n) },
  ]);
});

test.each([
  [false, 600n, 480n],
  [true, 500n, 400n],
])(
  'shipping has its tax (included: %j), and what was refunded is not left',
  async (taxesIncluded, paid, left) => {
    const shipping = { price: same('5.00'), tax: same('1.00') };
    const refunded = { price: same('1.00'), tax: same('0.20') };
    const line = await found({ taxesIncluded, shipping }, [
      refundOf({ lines: [], shipping: refunded }),
    ]);
    const refunds = [{ id: '7', key: '', value: bothOf(paid - left) }];
    expect(line.shipping).toEqual({ paid: bothOf(paid), left: bothOf(left), refunds });
  },
);

test('an order with more refunds than are read is rejected', async () => {
  const refunds = Array.from({ length: 21 }, (__, n) => refundOf({ id: BigInt(n + 1), lines: [] }));
  await expect(found({}, refunds)).rejects.toMatchObject({ kind: 'final' });
});

test.each(['DE/1001-A', '#1001 (2)'])('the order %j is found by its name', async (name) => {
  bought.orders.set(445n, order({ name }));
  expect(await find(name)).toMatchObject({ id: 445n, name });
});

test.each(['#100', '#1002', '" OR name:#1001', ''])('there is no order %j', async (name) => {
  expect(await find(name)).toBeUndefined();
});

test.each([
  [250, 'has all its lines'],
  [521, 'is rejected'],
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
  if (count > 520) return expect(find('#1001')).rejects.toMatchObject({ kind: 'final' });
  const ids = (await find('#1001'))?.lines.map(({ id }) => id);
  expect(ids).toEqual(lines.map(({ id }) => id));
});

const day = (n: number) => new Date(Date.UTC(2026, 10, n));

test('an order has what policies need: who bought it, where it went and when, and what its goods are', async () => {
  const shippedTo = { zip: 'N1 1AA', countryCodeV2: 'GB' };
  const fulfilments = [
    { createdAt: day(3), deliveredAt: day(5) },
    { createdAt: day(4), deliveredAt: day(6) },
    { createdAt: day(9), status: 'CANCELLED' as const },
  ];
  const product = { id: 8n, tags: ['final-sale'] };
  const line = {
    ...MUGS,
    product,
    variantTitle: 'Blue',
    image: 'https://img.example/1',
    unfulfilled: 1,
  };
  const tip: ShopLine = { ...MUGS, id: 9002n, kind: 'tip' };
  const sold = order({
    email: 'ada@example.com',
    shippedTo,
    createdAt: day(1),
    cancelledAt: day(7),
    fulfilments,
    lines: [line, tip],
  });
  bought.orders.set(445n, sold);
  const found = await find('#1001');
  expect(found).toMatchObject({
    email: 'ada@example.com',
    postalCode: 'N1 1AA',
    shippingCountry: 'GB',
    orderedAt: day(1),
    fulfilledAt: day(4),
    deliveredAt: day(6),
    cancelledAt: day(7),
    lines: [
      {
        kind: 'product',
        tags: ['final-sale'],
        variantTitle: 'Blue',
        image: 'https://img.example/1',
        shipped: 2,
      },
      { kind: 'service' },
    ],
  });
  expect(await find(445n)).toEqual(found);
  expect(await find(446n)).toBeUndefined();
  const onTheWay = { createdAt: day(4) };
  bought.orders.set(445n, { ...sold, fulfilments: [...fulfilments, onTheWay] });
  expect((await find('#1001'))?.deliveredAt).toBeUndefined();
});

test('an order has no shopper for an app that may not read who it is', async () => {
  bought.orders.set(445n, order({ isProtected: true, email: 'ada@example.com' }));
  const found = await find('#1001');
  expect(found).toMatchObject({ id: 445n, orderedAt: expect.any(Date) });
  expect(found?.email).toBeUndefined();
});
