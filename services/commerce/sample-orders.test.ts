import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { RecordSampleOrdersRequestSchema } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { actor, newShop, onlyProvider } from '../../test/kit/services/processing.ts';
import { createEmbeddedCommerce } from './embedded.ts';
import { findSampleOrder, recordSampleOrders } from './sample-orders.ts';

let db: TestDatabase;
let shopId: bigint;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
});

const both = (amount: string) => ({ shop: amount, presentment: amount });
const order = (more: object = {}) => ({
  id: 5001,
  name: '#5001',
  currency: 'GBP',
  presentment_currency: 'GBP',
  email: 'ada@example.com',
  shipping_country: 'gb',
  ordered_at: '2026-11-01T10:00:00Z',
  lines: [
    {
      line_item_id: 1,
      title: 'Mug',
      tags: ['kitchen'],
      quantity: 2,
      shipped: 1,
      returnable: 1,
      paid: { total: both('20.00') },
    },
  ],
  ...more,
});
const disconnected = { connected: async () => undefined };
const record = (orders: readonly (object | string)[], providers = disconnected) =>
  recordSampleOrders(
    { pool: db.pool, providers },
    create(RecordSampleOrdersRequestSchema, {
      shopId,
      actor,
      orders: orders.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))),
    }),
  );
const byName = (name: string) => findSampleOrder(db.pool, { shopId, name });

test('an order that was recorded is found by its name and its id, in its shop', async () => {
  expect(await record([order()])).toBe(1);
  const found = await byName(' #5001');
  expect(found).toMatchObject({
    id: 5001n,
    email: 'ada@example.com',
    shippingCountry: 'GB',
    orderedAt: new Date('2026-11-01T10:00:00Z'),
    lines: [{ id: 1n, tags: ['kitchen'], quantity: 2, shipped: 1, returnable: 1, refunds: [] }],
  });
  expect(await findSampleOrder(db.pool, { shopId, id: 5001n })).toEqual(found);
  expect(await byName('#5002')).toBeUndefined();
  const other = await newShop(db.pool);
  expect(await findSampleOrder(db.pool, { shopId: other, name: '#5001' })).toBeUndefined();
  expect(await findSampleOrder(db.pool, { shopId: other, id: 5001n })).toBeUndefined();
});

test('an order replaces the one with its id, and the one with its name', async () => {
  await record([order()]);
  await record([order({ name: '#5001-B' })]);
  expect(await byName('#5001')).toBeUndefined();
  await record([order({ id: 5002, name: '#5001-B' })]);
  expect(await byName('#5001-B')).toMatchObject({ id: 5002n });
  expect(await findSampleOrder(db.pool, { shopId, id: 5001n })).toBeUndefined();
});

test.each([
  ['no JSON', '{'],
  ['an order without lines', { ...order(), lines: undefined }],
  ['amounts that contradict each other', order({ presentment_currency: 'ABC' })],
])('%s is rejected, and nothing is recorded', async (_, wrong) => {
  const failed = record([order(), wrong]);
  await expect(failed).rejects.toMatchObject({ code: Code.InvalidArgument, field: 'orders[1]' });
  expect(await byName('#5001')).toBeUndefined();
});

test('a shop with a provider of its own has its orders there', async () => {
  const own = onlyProvider(createEmbeddedCommerce(db.pool));
  await expect(record([order()], own as never)).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  });
});

test('a shop has built-in orders of any age at once', async () => {
  const found = await byName('#T10-7');
  const days = (time: Date | undefined) =>
    Math.round((Date.now() - (time?.getTime() ?? 0)) / 86_400_000);
  expect([days(found?.deliveredAt), days(found?.fulfilledAt), days(found?.orderedAt)]).toEqual([
    10, 12, 13,
  ]);
  expect(found).toMatchObject({
    name: '#T10-7',
    email: 'shopper@example.com',
    shippingCountry: 'GB',
    currencies: { shop: 'GBP', presentment: 'GBP' },
    lines: [
      { title: 'Mug', quantity: 2, returnable: 2, kind: 'product' },
      { title: 'Scarf', quantity: 1, tags: ['final-sale'] },
      { title: 'Gift card', returnable: 0, kind: 'gift_card' },
    ],
  });
  expect(await findSampleOrder(db.pool, { shopId, id: found?.id ?? 0n })).toMatchObject({
    name: '#T10-7',
  });
  expect((await byName('T10'))?.id).not.toBe(found?.id);
  expect(await byName('#T1000')).toBeUndefined();
  expect(await findSampleOrder(db.pool, { shopId: 987_654_321n, name: '#T10' })).toBeUndefined();
});
