import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  claimOne,
  endLeases,
  exchangeWith,
  newLine,
  newReturn,
  newShop,
  onlyProvider,
  requestProcessing,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { LeaseLost } from '../../platform/lease-lost.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { claimJobs } from './jobs.ts';
import { prepare } from './prepare.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const anyProvider = () => onlyProvider(createEmbeddedCommerce(db.pool));

test('a prepared job has what the provider needs, and no line items, because 24 large returns may be processed concurrently', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
  expect(of.lineItems).toHaveLength(1);
  await requestProcessing(db.pool, of);
  const { details, steps } = await prepare(
    { ...changeDeps(db.pool), providers: anyProvider() },
    await claimOne(db.pool),
  );
  expect(details.lineItems).toEqual([]);
  expect(details).toMatchObject({ id: of.id, order: of.order, exchanges: of.exchanges });
  expect(steps.map(({ kind }) => kind)).toEqual(['exchange_order', 'refund']);
});

test('a prepared refund says which part of a line is shipping, because a refund of shipping does not lower what is left of the line', async () => {
  const amount = (value: string) => ({ shop: value, presentment: value });
  const goods = { price: amount('10.00'), refundItem: amount('10.00') };
  const shipping = { refundShipping: amount('2.50'), refundShippingTax: amount('0.50') };
  const lines = [{ ...newLine(), ...goods, ...shipping }];
  const of = await newReturn(db.pool, await newShop(db.pool), { lines });
  await requestProcessing(db.pool, of);
  const deps = { ...changeDeps(db.pool), providers: anyProvider() };
  const prepared = await prepare(deps, await claimOne(db.pool));
  expect(prepared.lines).toMatchObject([{ refund: '12.50', shipping: '2.50' }]);
});

test('a worker whose job was taken over prepares nothing', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool));
  await requestProcessing(db.pool, of);
  const lost = await claimOne(db.pool);
  await endLeases(db.pool);
  const held = (await claimJobs(db.pool, 10)).find(({ id }) => id === lost.id);
  if (!held) throw new Error('no worker took over the job');
  await expect(prepare({ ...changeDeps(db.pool), providers: anyProvider() }, lost)).rejects.toThrow(
    LeaseLost,
  );
  const { rowCount } = await db.pool.query(
    'select from processing_outcomes where shop_id = $1 and return_id = $2',
    [of.shopId, of.id],
  );
  expect(rowCount).toBe(0);
  expect(
    (await prepare({ ...changeDeps(db.pool), providers: anyProvider() }, held)).steps,
  ).toHaveLength(1);
});
