import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  shopifyRequest as request,
  type ShopifyBench,
  startShopifyBench,
} from '../../../test/kit/commerce/shopify/bench.ts';
import { present } from '../../../test/kit/services/returns-bench.ts';
import type { RestockLine } from '../provider.ts';

// What moves goods at Shopify, and no money: restocks and cancelled exchange orders.

const never = new AbortController().signal;

let bench: ShopifyBench;
beforeEach(async () => {
  bench = await startShopifyBench();
});
afterEach(() => bench.stop());

const commerce: ShopifyBench['commerce'] = (more) => bench.commerce(more);
const failure: ShopifyBench['failure'] = (asked) => bench.failure(asked);

describe('a restock', () => {
  const line = (more: Partial<RestockLine> = {}): RestockLine => ({
    lineItemId: 1n,
    providerLineItemId: 9001n,
    variantId: 5n,
    sku: 'MUG-1',
    quantity: 1,
    locationId: 70_001n,
    ...more,
  });
  const restock = (stock: readonly RestockLine[] = [line()]) =>
    request('restock', { amount: '0', stock });

  test('adds the goods at each location, or at the primary one', async () => {
    const stock = [line(), line({ quantity: 2 }), line({ locationId: 0n })];
    const made = await commerce().create(restock(stock), never);
    expect(made).toMatchObject({ amount: '0', id: String(bench.shop.adjustments[0]?.id) });
    expect(bench.shop.adjustments).toMatchObject([
      {
        reference: 'gid://returns-management-service/Return/8',
        changes: [
          { item: 9001n, location: 70_000n, delta: 1 },
          { item: 9001n, location: 70_001n, delta: 3 },
        ],
      },
    ]);
  });

  test.each(['lost after', '500 after', 'lost before', 'throttled', 'duplicate'] as const)(
    'is made once by a repeated key after the fault: %s',
    async (fault) => {
      bench.faults.set('AdjustStock', fault);
      await commerce()
        .create(restock(), never)
        .catch(() => {});
      expect(await commerce().find(restock(), never)).toBeUndefined();
      await commerce().create(restock(), never);
      expect(bench.shop.adjustments).toHaveLength(1);
    },
  );

  test('is not repeated when Shopify may have forgotten the key', () => {
    expect(commerce().repeatableForMs).toEqual({ restock: 12 * 3_600_000 });
  });

  test.each(['not counted', 'deleted'] as const)('leaves out goods that are %s', async (how) => {
    const order = present(bench.shop.orders.get(445n));
    const lines = [...order.lines, { ...present(order.lines[0]), id: 9002n, stock: how }];
    bench.shop.orders.set(445n, { ...order, lines });
    const other = line({ providerLineItemId: 9002n });
    await commerce().create(restock([line(), other]), never);
    expect(bench.shop.adjustments).toMatchObject([{ changes: [{ item: 9001n, delta: 1 }] }]);
    const nothing = await commerce().create(restock([other]), never);
    expect(nothing.id).toBe('not-counted');
    expect(bench.shop.adjustments).toHaveLength(1);
  });

  test('at a location that does not stock the goods is rejected', async () => {
    const asked = restock([line({ locationId: 70_009n })]);
    expect(await failure(asked)).toMatchObject({ kind: 'final' });
    expect(bench.shop.adjustments).toEqual([]);
  });
});

describe('the cancellation of an exchange order', () => {
  async function ordered() {
    const { id, name } = await commerce().create(request('exchange_order'), never);
    return request('order_cancel', { amount: '0', orderToCancel: { id: BigInt(id), name } });
  }
  const order = () => present(bench.shop.drafts[0]?.order);

  test('has the id of the order, and is found', async () => {
    const asked = await ordered();
    expect(await commerce().find(asked, never)).toBeUndefined();
    const made = await commerce().create(asked, never);
    expect(made).toMatchObject({ id: String(order().id), amount: '0' });
    expect(order().cancelledAt).toBeDefined();
    expect(await commerce().find(asked, never)).toEqual(made);
    expect(await commerce().create(asked, never)).toEqual(made);
    expect(bench.operations().filter((one) => one === 'CancelOrder')).toHaveLength(1);
  });

  test.each(['lost after', '500 after', 'lost before', 'duplicate'] as const)(
    'is made once after the fault: %s',
    async (fault) => {
      const asked = await ordered();
      bench.faults.set('CancelOrder', fault);
      await commerce()
        .create(asked, never)
        .catch(() => {});
      await commerce().create(asked, never);
      expect(order().cancelledAt).toBeDefined();
    },
  );

  test('waits until Shopify has cancelled it', async () => {
    const asked = await ordered();
    await bench.restart({ lagMs: 100 });
    const made = await commerce().create(asked, never);
    expect(made.createdAt).toEqual(order().cancelledAt);
  });

  test('of a shipped order, or of one that does not exist, is rejected', async () => {
    const asked = await ordered();
    const other = { ...asked, orderToCancel: { id: 9n, name: '' } };
    expect(await failure(other)).toMatchObject({ kind: 'final' });
    order().isShipped = true;
    expect(await failure(asked)).toMatchObject({
      kind: 'final',
      message: expect.stringContaining('fulfilled'),
    });
    expect(order().cancelledAt).toBeUndefined();
  });
});
