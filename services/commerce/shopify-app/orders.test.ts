import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { line, newId, type SubmissionPart } from '../../../test/kit/builders.ts';
import {
  type InstallBench,
  startInstallBench,
  type TestStore,
} from '../../../test/kit/commerce/install-bench.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';

// Orders and refunds that Shopify reports.

let under: InstallBench;
let store: TestStore;
let orderId: bigint;
let lineId: bigint;
beforeAll(async () => {
  under = await startInstallBench();
});
afterAll(() => under?.stop());
beforeEach(async () => {
  store = await under.newStore();
  under.shopify.reset();
  await under.install(store);
  orderId = newId();
  lineId = newId();
});

const receive = (topic: string, body: object) =>
  under.commerce.receiveShopifyWebhook(under.shopify.webhook(store.shopDomain, topic, body));

const orderWith = (more: object) => ({
  id: Number(orderId),
  name: '#1001',
  updated_at: '2026-11-20T10:00:00+02:00',
  cancelled_at: null,
  line_items: [{ id: Number(lineId), quantity: 2, price: '20.00' }],
  ...more,
});

const refundWith = (more: object) => ({
  id: Number(newId()),
  order_id: Number(orderId),
  created_at: '2026-11-21T10:00:00Z',
  note: null,
  refund_line_items: [
    {
      line_item_id: Number(lineId),
      quantity: 1,
      subtotal_set: { presentment_money: { amount: '20.00', currency_code: 'GBP' } },
    },
  ],
  transactions: [
    { kind: 'refund', status: 'success', amount: '15.00', currency: 'GBP' },
    { kind: 'refund', status: 'failure', amount: '20.00', currency: 'GBP' },
    { kind: 'refund', status: 'success', amount: '5.00', currency: 'GBP' },
  ],
  ...more,
});

const returnOf = (quantity: number): SubmissionPart => ({
  order: { providerOrderId: orderId, name: '#1001' },
  lines: [line({ providerLineItemId: lineId, quantity })],
});

describe('orders/updated', () => {
  test('limits the returns of a line to its ordered units', async () => {
    await receive('orders/updated', orderWith({}));
    expect(await under.bench.submitError(store.shopId, returnOf(3))).toMatchObject({
      reason: 'ORDERED_QUANTITY_EXCEEDED',
    });
    await under.bench.submit(store.shopId, returnOf(2));
  });

  test('lets processing lock the connection while it waits for a return that processing has locked', async () => {
    const of = await under.bench.submit(store.shopId, returnOf(1));
    const processing = await under.bench.db.pool.connect();
    try {
      await processing.query('begin');
      await processing.query('select from returns where shop_id = $1 and id = $2 for update', [
        store.shopId,
        of.id,
      ]);
      const received = receive('orders/updated', orderWith({}));
      await until(async () => (await lockWaits(under.bench.db.pool)) > 0);
      // Before the request of a step, in the same transaction as the lock of the return. See `commitRequest`.
      await processing.query(`set local lock_timeout = '500ms'`);
      await processing.query('select from commerce_connections where shop_id = $1 for share', [
        store.shopId,
      ]);
      await processing.query('commit');
      expect(await received).toMatchObject({ accepted: true });
    } finally {
      processing.release(true);
    }
  });

  test.each([
    ['a negative quantity', { line_items: [{ id: 1, quantity: -1 }] }],
    ['no time', { updated_at: undefined }],
    ['too many lines', { line_items: Array(1_001).fill({ id: 1, quantity: 1 }) }],
  ])('with %s is accepted, and changes nothing', async (_, more) => {
    expect(await receive('orders/updated', orderWith(more))).toMatchObject({ accepted: true });
    const { rowCount } = await under.bench.db.pool.query(
      'select from inbound_orders where shop_id = $1',
      [store.shopId],
    );
    expect(rowCount).toBe(0);
  });

  test('whose name cannot be stored is recorded without these characters', async () => {
    await receive('orders/updated', orderWith({ name: `#1\0${'x'.repeat(300)}` }));
    const { rows } = await under.bench.db.pool.query(
      'select name from inbound_orders where shop_id = $1',
      [store.shopId],
    );
    expect(rows).toEqual([{ name: `#1${'x'.repeat(189)}` }]);
  });
});

test('orders/cancelled: the order takes no returns', async () => {
  await receive('orders/cancelled', orderWith({ cancelled_at: '2026-11-20T11:00:00Z' }));
  expect(await under.bench.submitError(store.shopId, returnOf(1))).toMatchObject({
    reason: 'STATE_FORBIDS',
  });
});

describe('refunds/create', () => {
  test('of the merchant is shown, and its units are not refunded again', async () => {
    const of = await under.bench.submit(store.shopId, returnOf(1));
    await receive(
      'orders/updated',
      orderWith({ line_items: [{ id: Number(lineId), quantity: 1 }] }),
    );
    await receive('refunds/create', refundWith({}));
    const entries = await under.bench.timeline(of);
    expect(entries.at(-1)).toMatchObject({
      text: '20.00 GBP was refunded at the commerce provider, not by this service',
    });
    await under.bench.client.processReturn({ shopId: store.shopId, actor, returnId: of.id });
    await until(async () => (await under.bench.triggers(of)).includes('return.processing.failed'));
  });

  test('without money counts its units', async () => {
    await receive('orders/updated', orderWith({}));
    await receive('refunds/create', refundWith({ transactions: [] }));
    expect(await under.bench.submitError(store.shopId, returnOf(2))).toMatchObject({
      reason: 'ORDERED_QUANTITY_EXCEEDED',
    });
  });

  test.each([
    ['12.345', 'GBP', '12.35'],
    ['1500.4', 'JPY', '1500'],
    ['1.005', 'ZZZ', '1.01'],
  ])('of %s %s counts its units, and is shown as %s', async (amount, currency, shown) => {
    await receive('orders/updated', orderWith({}));
    const of = await under.bench.submit(store.shopId, returnOf(1));
    const money = { presentment_money: { amount, currency_code: currency } };
    const lines = [{ line_item_id: Number(lineId), quantity: 1, subtotal_set: money }];
    const transactions = [{ kind: 'refund', status: 'success', amount, currency }];
    await receive('refunds/create', refundWith({ refund_line_items: lines, transactions }));
    expect((await under.bench.timeline(of)).at(-1)?.text).toContain(`${shown} ${currency} was`);
    expect(await under.bench.submitError(store.shopId, returnOf(1))).toMatchObject({
      reason: 'ORDERED_QUANTITY_EXCEEDED',
    });
  });

  test('of this service is recognized by the key in its note', async () => {
    const of = await under.bench.submit(store.shopId, returnOf(1));
    const key = `rms:return:${of.id}:refund`;
    await under.bench.db.pool.query(
      `insert into processing_outcomes (shop_id, return_id, kind, key, amount, currency)
       values ($1, $2, 'refund', $3, 20, 'GBP')`,
      [store.shopId, of.id, key],
    );
    const before = await under.bench.timeline(of);
    await receive('refunds/create', refundWith({ note: `Return ${of.id} (${key})` }));
    expect(await under.bench.timeline(of)).toHaveLength(before.length);
  });

  test.each([['with neither money nor lines', { transactions: [], refund_line_items: [] }]])(
    '%s changes nothing',
    async (_, more) => {
      expect(await receive('refunds/create', refundWith(more))).toMatchObject({ accepted: true });
      const { rowCount } = await under.bench.db.pool.query(
        'select from inbound_refunds where shop_id = $1',
        [store.shopId],
      );
      expect(rowCount).toBe(0);
    },
  );
});
