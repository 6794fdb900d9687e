import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parse, validate } from 'graphql';
import {
  exampleShop,
  POLICY,
  SHOP_DOMAIN,
  TOKEN,
} from '../../../../test/kit/commerce/shopify/example-shop.ts';
import { schema } from '../../../../test/kit/commerce/shopify/resolvers.ts';
import {
  type Fault,
  type ShopifyServer,
  type ShopifyServerOptions,
  startShopify,
} from '../../../../test/kit/commerce/shopify/server.ts';
import type { Shop } from '../../../../test/kit/commerce/shopify/shop.ts';
import type { EffectKind, EffectRequest } from '../provider.ts';
import { createShopifyCommerce, SHOP_PLAN } from './adapter.ts';
import { createShopifyClient, type ShopifyClient } from './client.ts';
import * as drafts from './draft-orders.ts';
import * as giftCards from './gift-card.ts';
import { LINES_OF_ORDER, ORDERS_BY_NAME } from './order.ts';
import * as refunds from './refund.ts';

const never = new AbortController().signal;
const KINDS = ['exchange_order', 'gift_card', 'refund'] as const;

let shop: Shop;
let server: ShopifyServer;
let client: ShopifyClient;
/** The faults of the next requests, by operation. */
let faults: Map<string, Fault>;

async function start(more: Partial<ShopifyServerOptions> = {}): Promise<void> {
  await client?.close();
  await server?.stop();
  const fault = (operation: string) => {
    const next = faults.get(operation);
    faults.delete(operation);
    return next;
  };
  server = await startShopify({ shop, token: TOKEN, fault, ...more });
  client = createShopifyClient({ policy: POLICY, origin: server.origin });
}

beforeEach(async () => {
  shop = exampleShop();
  faults = new Map();
  await start();
});
afterEach(async () => {
  await client.close();
  await server.stop();
});

const commerce = (more = {}) =>
  createShopifyCommerce({
    client,
    shopDomain: SHOP_DOMAIN,
    accessToken: TOKEN,
    sandbox: false,
    ...more,
  });

function request(kind: EffectKind, more: Partial<EffectRequest> = {}): EffectRequest {
  const item = { productId: 1n, variantId: 9n, sku: 'HAT', title: 'Hat' };
  return {
    kind,
    shopId: 7n,
    returnId: 8n,
    providerOrderId: 445n,
    orderName: '#1001',
    key: `rms:return:8:${kind}`,
    amount: '1240',
    currency: 'JPY',
    items:
      kind === 'exchange_order' ? [{ ...item, price: '1300', discount: '100', tax: '40' }] : [],
    lines:
      kind === 'refund'
        ? [{ providerLineItemId: 9001n, sku: 'MUG-1', quantity: 1, refund: '1240' }]
        : [],
    stock: [],
    details: {},
    ...more,
  };
}

/** How many of a kind exist at the shop. */
const countOf = (kind: (typeof KINDS)[number]): number =>
  ({
    exchange_order: shop.drafts.filter(({ order }) => order !== undefined).length,
    gift_card: shop.giftCards.length,
    refund: shop.refunds.length,
  })[kind];

const failure = (asked: EffectRequest) =>
  commerce()
    .create(asked, never)
    .catch((error: unknown) => error);

test('every operation is valid in the schema', () => {
  const all = [
    SHOP_PLAN,
    ORDERS_BY_NAME,
    LINES_OF_ORDER,
    ...[drafts, giftCards, refunds].flatMap(Object.values),
  ];
  const operations = all.filter((one) => typeof one === 'object' && 'text' in one);
  expect(operations).toHaveLength(15);
  for (const { name, text } of operations) {
    expect(validate(schema, parse(text))).toEqual([]);
    expect(text).toContain(` ${name}`);
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
    faults.set(last[kind], fault);
    const failed = await failure(request(kind));
    if (!['duplicate', 'late'].includes(fault)) {
      expect(failed).toMatchObject({ kind: 'passing', isUnsent: false });
    }
    await commerce().create(request(kind), never);
    expect(countOf(kind)).toBe(1);
    if (kind === 'exchange_order') expect(shop.drafts).toHaveLength(1);
  });

  test('is known as not sent when only a query has failed', async () => {
    const first = { exchange_order: 'FindDrafts', gift_card: 'Shopper', refund: 'ListRefunds' };
    faults.set(first[kind], '500 before');
    expect(await failure(request(kind))).toMatchObject({ kind: 'passing', isUnsent: true });
  });

  test('of a revoked token is tried again later', async () => {
    const revoked = commerce({ accessToken: 'shpat_revoked' });
    const failed = { kind: 'passing', message: 'Shopify: it answered 401' };
    await expect(revoked.create(request(kind), never)).rejects.toMatchObject(failed);
    await expect(revoked.find(request(kind), never)).rejects.toMatchObject(failed);
  });

  test('of a sandbox is made in a development store only', async () => {
    const sandbox = commerce({ sandbox: true });
    await expect(sandbox.create(request(kind), never)).rejects.toMatchObject({ kind: 'final' });
    expect(countOf(kind)).toBe(0);
    shop.isDevelopment = true;
    await sandbox.create(request(kind), never);
    expect(countOf(kind)).toBe(1);
  });
});

describe('a refund', () => {
  test('has the returned lines, which are not restocked, and a note with the key', async () => {
    await commerce().create(request('refund'), never);
    expect(shop.refunds).toMatchObject([
      { note: 'Return 8 (rms:return:8:refund)', lines: [{ id: 9001n, quantity: 1 }] },
    ]);
  });

  test('of more than is left of the payment has no effect', async () => {
    const asked = request('refund', { amount: '3101' });
    expect(await failure(asked)).toMatchObject({
      kind: 'final',
      message: 'Shopify: of 3101 JPY, 1 cannot be refunded: the order has less left',
    });
    expect(shop.refunds).toEqual([]);
  });

  test.each([
    ['another currency', { currency: 'GBP', amount: '12.40' }],
    ['an order that does not exist', { providerOrderId: 446n }],
    [
      'more units than were bought',
      { lines: [{ providerLineItemId: 9001n, sku: 'MUG-1', quantity: 3, refund: '1' }] },
    ],
  ])('in %s is rejected for good reason, as final', async (_, more) => {
    expect(await failure(request('refund', more))).toMatchObject({ kind: 'final' });
    expect(shop.refunds).toEqual([]);
  });

  test('whose transaction failed shows that less was moved', async () => {
    await commerce().create(request('refund'), never);
    for (const refund of shop.refunds) refund.status = 'FAILURE';
    expect(await commerce().find(request('refund'), never)).toMatchObject({ amount: '0' });
  });

  test('with the key of another request is not taken as made, nor as rejected', async () => {
    await commerce().create(request('refund'), never);
    shop.refunds.length = 0;
    const other = request('refund', { amount: '10' });
    expect(await failure(other)).toMatchObject({ kind: 'passing', isUnsent: false });
  });
});

describe('while the search does not show what was made', () => {
  beforeEach(() => start({ lagMs: 60_000 }));

  test('no second gift card is made', async () => {
    await commerce().create(request('gift_card'), never);
    expect(await failure(request('gift_card'))).toMatchObject({ kind: 'passing' });
    expect(shop.giftCards).toHaveLength(1);
  });

  test('a refund is found', async () => {
    const made = await commerce().create(request('refund'), never);
    expect(await commerce().find(request('refund'), never)).toEqual(made);
  });
});

test('a gift card is found after a new installation, by its shopper', async () => {
  const made = await commerce().create(request('gift_card'), never);
  const token = 'shpat_after_a_new_installation';
  await start({ token });
  const again = commerce({ accessToken: token });
  expect(await again.create(request('gift_card'), never)).toEqual(made);
});

test('a draft that does not cost the amount is not completed', async () => {
  const asked = request('exchange_order', { amount: '1239' });
  expect(await failure(asked)).toMatchObject({ kind: 'final' });
  expect(countOf('exchange_order')).toBe(0);
});

test('a restock is rejected, because it could not be found again', async () => {
  expect(await failure(request('restock'))).toMatchObject({ kind: 'final' });
  expect(await commerce().find(request('restock'), never)).toBeUndefined();
  expect(server.operations).toEqual([]);
});

test('effects of a period cannot be listed', async () => {
  const period = { shopId: 7n, from: new Date(0), to: new Date(), cursor: '' };
  expect(await commerce().list(period, never)).toBeUndefined();
});
