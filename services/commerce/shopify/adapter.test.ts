import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parse, validate } from 'graphql';
import {
  shopifyRequest as request,
  type ShopifyBench,
  startShopifyBench,
} from '../../../test/kit/commerce/shopify/bench.ts';
import { ACCESS } from '../../../test/kit/commerce/shopify/example-shop.ts';
import { schema } from '../../../test/kit/commerce/shopify/resolvers.ts';
import { present } from '../../../test/kit/services/returns-bench.ts';
import { SHOP_PLAN } from './adapter.ts';
import * as exchangeOrders from './exchange-order.ts';
import * as giftCards from './gift-card.ts';
import * as orders from './order.ts';
import * as refunds from './refund.ts';
import * as restocks from './restock.ts';

const never = new AbortController().signal;
const KINDS = ['exchange_order', 'gift_card', 'refund'] as const;

let bench: ShopifyBench;
beforeEach(async () => {
  bench = await startShopifyBench();
});
afterEach(() => bench.stop());

const commerce: ShopifyBench['commerce'] = (more) => bench.commerce(more);
const failure: ShopifyBench['failure'] = (asked) => bench.failure(asked);

/** How many of a kind exist at the shop. */
const countOf = (kind: (typeof KINDS)[number]): number =>
  ({
    exchange_order: bench.shop.drafts.filter(({ order }) => order !== undefined).length,
    gift_card: bench.shop.giftCards.length,
    refund: bench.shop.refunds.length,
  })[kind];

test('every operation is valid in the schema', () => {
  const all = [
    SHOP_PLAN,
    ...[orders, exchangeOrders, giftCards, refunds, restocks].flatMap(Object.values),
  ];
  const operations = all.filter((one) => typeof one === 'object' && 'text' in one);
  expect(operations).toHaveLength(25);
  for (const { name, text } of operations) {
    expect(validate(schema, parse(text))).toEqual([]);
    expect(name).toMatch(/^\w+$/);
  }
});

describe.each(KINDS)('%s', (kind) => {
  test('is made exactly as requested, and found', async () => {
    expect(await commerce().find(request(kind), never)).toBeUndefined();
    const made = await commerce().create(request(kind), never);
    expect(made).toMatchObject({ amount: '1240', currency: 'JPY' });
    expect(made.id).toMatch(/^\d+$/);
    expect(await commerce().find(request(kind), never)).toEqual(made);
    expect(await commerce().find(request(kind, { key: 'rms:return:81' }), never)).toBeUndefined();
  });

  test('is made once for a repeated key', async () => {
    const first = await commerce().create(request(kind), never);
    expect(await commerce().create(request(kind), never)).toEqual(first);
    expect(countOf(kind)).toBe(1);
  });

  test.each([
    'lost before',
    'lost after',
    '500 before',
    '500 after',
    '429',
    'throttled',
    'duplicate',
    'late',
  ] as const)('is made once when the last mutation has the fault: %s', async (fault) => {
    const last = {
      exchange_order: 'CompleteDraft',
      gift_card: 'CreateGiftCard',
      refund: 'CreateRefund',
    };
    bench.faults.set(last[kind], fault);
    const failed = await failure(request(kind));
    if (!['duplicate', 'late'].includes(fault)) {
      expect(failed).toMatchObject({ kind: 'passing', isUnsent: false });
    }
    await commerce().create(request(kind), never);
    expect(countOf(kind)).toBe(1);
    if (kind === 'exchange_order') expect(bench.shop.drafts).toHaveLength(1);
  });

  test('is known as not sent when only a query has failed', async () => {
    const first = { exchange_order: 'FindDrafts', gift_card: 'Shopper', refund: 'ListRefunds' };
    bench.faults.set(first[kind], '500 before');
    expect(await failure(request(kind))).toMatchObject({ kind: 'passing', isUnsent: true });
  });

  test('of a revoked token is tried again later', async () => {
    const rejected: string[] = [];
    const revoked = commerce({
      access: async () => ({ ...ACCESS, accessToken: 'shpat_revoked' }),
      onRejected: async (accessToken) => void rejected.push(accessToken),
    });
    const failed = { kind: 'passing', message: 'Shopify: it answered 401' };
    await expect(revoked.create(request(kind), never)).rejects.toMatchObject(failed);
    await expect(revoked.find(request(kind), never)).rejects.toMatchObject(failed);
    expect(rejected).toEqual(['shpat_revoked', 'shpat_revoked']);
  });

  test('of a sandbox is made in a development store only', async () => {
    const sandbox = commerce({ sandbox: true });
    await expect(sandbox.create(request(kind), never)).rejects.toMatchObject({ kind: 'final' });
    expect(countOf(kind)).toBe(0);
    bench.shop.isDevelopment = true;
    await sandbox.create(request(kind), never);
    expect(countOf(kind)).toBe(1);
  });
});

describe('a refund', () => {
  test('has the returned lines, which are not restocked, and a note with the key', async () => {
    await commerce().create(request('refund'), never);
    expect(bench.shop.refunds).toMatchObject([
      { note: 'Return 8 (rms:return:8:refund)', lines: [{ id: 9001n, quantity: 1 }] },
    ]);
  });

  test('of more than is left of the payment has no effect', async () => {
    const asked = request('refund', { amount: '3101' });
    expect(await failure(asked)).toMatchObject({
      kind: 'final',
      message: 'Shopify: of 3101 JPY, 1 cannot be refunded: the order has less left',
    });
    expect(bench.shop.refunds).toEqual([]);
  });

  test.each([
    ['another currency', { currency: 'GBP', amount: '12.40' }],
    ['an order that does not exist', { providerOrderId: 446n }],
    [
      'more units than were bought',
      {
        lines: [
          { providerLineItemId: 9001n, sku: 'MUG-1', quantity: 3, refund: '1', shipping: '0' },
        ],
      },
    ],
  ])('in %s is rejected for good reason, as final', async (_, more) => {
    expect(await failure(request('refund', more))).toMatchObject({ kind: 'final' });
    expect(bench.shop.refunds).toEqual([]);
  });

  test('whose transaction failed shows that less was moved', async () => {
    await commerce().create(request('refund'), never);
    for (const refund of bench.shop.refunds) refund.status = 'FAILURE';
    expect(await commerce().find(request('refund'), never)).toMatchObject({ amount: '0' });
  });

  test('with the key of another request is not taken as made, nor as rejected', async () => {
    await commerce().create(request('refund'), never);
    bench.shop.refunds.length = 0;
    const other = request('refund', { amount: '10' });
    expect(await failure(other)).toMatchObject({ kind: 'passing', isUnsent: false });
  });
});

describe('while the search does not show what was made', () => {
  beforeEach(() => bench.restart({ lagMs: 60_000 }));

  test('no second gift card is made', async () => {
    await commerce().create(request('gift_card'), never);
    expect(await failure(request('gift_card'))).toMatchObject({ kind: 'passing' });
    expect(bench.shop.giftCards).toHaveLength(1);
  });

  test('a refund is found', async () => {
    const made = await commerce().create(request('refund'), never);
    expect(await commerce().find(request('refund'), never)).toEqual(made);
  });
});

test('a gift card without a shopper is found after a new installation, by its code', async () => {
  bench.shop.orders.set(445n, { ...present(bench.shop.orders.get(445n)), customerId: undefined });
  const made = await commerce().create(request('gift_card'), never);
  await bench.restart({ token: 'shpat_after_a_new_installation' });
  const access = { ...ACCESS, accessToken: 'shpat_after_a_new_installation' };
  const again = commerce({ access: async () => access });
  expect(await again.find(request('gift_card'), never)).toEqual(made);
});

test('a gift card is found after its secret was deleted, by its shopper', async () => {
  const made = await commerce().create(request('gift_card'), never);
  const token = 'shpat_after_a_new_installation';
  await bench.restart({ token });
  const access = { accessToken: token, codeSecret: 'codes_after_a_new_installation' };
  const again = commerce({ access: async () => access });
  expect(await again.create(request('gift_card'), never)).toEqual(made);
});

test('a gift card has the same code after the token was refreshed', async () => {
  await bench.restart({ lagMs: 60_000 });
  await commerce().create(request('gift_card'), never);
  await bench.restart({ token: 'shpat_refreshed', lagMs: 60_000 });
  const access = { ...ACCESS, accessToken: 'shpat_refreshed' };
  const again = commerce({ access: async () => access });
  await expect(again.create(request('gift_card'), never)).rejects.toMatchObject({
    message: expect.stringContaining('the gift card exists'),
  });
  expect(bench.shop.giftCards).toHaveLength(1);
});

test('a draft that does not cost the amount is not completed', async () => {
  const asked = request('exchange_order', { amount: '1239' });
  expect(await failure(asked)).toMatchObject({ kind: 'final' });
  expect(countOf('exchange_order')).toBe(0);
});

test('effects of a period cannot be listed', async () => {
  const period = { shopId: 7n, from: new Date(0), to: new Date(), cursor: '' };
  expect(await commerce().list(period, never)).toBeUndefined();
});
