import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  type ShopifyBench,
  shopifyRequest,
  startShopifyBench,
} from '../../../test/kit/commerce/shopify/bench.ts';
import type { EffectRequest } from '../provider.ts';

// An exchange order of 1240 yen, of which the returned goods pay 1000.

const never = new AbortController().signal;
const FUNDING = { paidByReturn: '1000', due: '240', paymentReference: '' };
const request = (more: Partial<EffectRequest> = {}) =>
  shopifyRequest('exchange_order', { funding: FUNDING, ...more });

let bench: ShopifyBench;
beforeEach(async () => {
  bench = await startShopifyBench();
  const order = bench.shop.orders.get(445n);
  if (order) bench.shop.orders.set(445n, { ...order, email: 'ada@example.com' });
});
afterEach(() => bench.stop());

/** For each order that exists: what its shopper must pay, and the number of invoices. */
const pending = () =>
  bench.shop.drafts.flatMap(({ order, invoices }) =>
    order ? [[order.isPending ? order.amount : '0', invoices.length]] : [],
  );

describe('an exchange order that the shopper must pay in part', () => {
  test('has its payment pending, and the invoice asks for what is due', async () => {
    const made = await bench.commerce().create(request(), never);
    expect(made).toMatchObject({ amount: '1240', currency: 'JPY', due: '240' });
    expect(pending()).toEqual([['240', 1]]);
    expect(await bench.commerce().find(request(), never)).toEqual(made);
    expect(await bench.commerce().create(request(), never)).toEqual(made);
    expect(pending()).toEqual([['240', 1]]);
    // The daily comparison does not know what is due.
    const { funding: _, ...compared } = request();
    expect(await bench.commerce().find(compared, never)).toMatchObject({ amount: '1240' });
  });

  test('is made once, with one invoice, whichever answer is lost', async () => {
    const operations = ['FindDrafts', 'Recipient', 'CreateDraft', 'CompleteDraft', 'SendInvoice'];
    let key = 0;
    for (const operation of operations) {
      for (const fault of ['lost before', 'lost after', '500 before', '500 after'] as const) {
        key += 1;
        const asked = request({ key: `rms:return:${key}:exchange_order` });
        bench.faults.set(operation, fault);
        expect(await bench.failure(asked)).toMatchObject({ kind: 'passing' });
        const found = await bench.commerce().find(asked, never);
        // An order whose invoice was not sent must not end the step.
        expect([undefined, '240', true]).toContain(found?.due ?? found?.isUnfinished);
        if (found?.due === undefined) await bench.commerce().create(asked, never);
        expect(await bench.commerce().find(asked, never)).toMatchObject({ due: '240' });
      }
    }
    expect(pending()).toEqual(Array.from({ length: key }, () => ['240', 1]));
  });

  test('that Shopify counts as paid is not confirmed, and gets no invoice', async () => {
    bench.shop.marksAsPaid = true;
    const made = await bench.commerce().create(request(), never);
    expect(made).toMatchObject({ amount: '1240', due: '0' });
    expect(pending()).toEqual([['0', 0]]);
    expect(await bench.commerce().find(request(), never)).toMatchObject({ isUnfinished: true });
  });

  test('is not made for an order without an e-mail address', async () => {
    const order = bench.shop.orders.get(445n);
    if (order) bench.shop.orders.set(445n, { ...order, email: '' });
    expect(await bench.failure(request())).toMatchObject({
      kind: 'final',
      message: 'Shopify: the order has no e-mail address for the invoice of 240 JPY',
    });
    expect(bench.shop.drafts).toEqual([]);
  });

  test('refunds what the shopper has paid when it is cancelled', async () => {
    const { id, name } = await bench.commerce().create(request(), never);
    const orderToCancel = { id: BigInt(id), name };
    const cancelling = { amount: '0', funding: FUNDING, orderToCancel };
    await bench.commerce().create(shopifyRequest('order_cancel', cancelling), never);
    expect(bench.shop.drafts.map(({ order }) => order?.isRefunded)).toEqual([true]);
  });
});

test('a prepaid exchange order is paid, and has no invoice', async () => {
  const funding = { paidByReturn: '1000', due: '0', paymentReference: 'pay_77' };
  const made = await bench.commerce().create(request({ funding }), never);
  expect(made).toMatchObject({ amount: '1240' });
  expect(pending()).toEqual([['0', 0]]);
});
