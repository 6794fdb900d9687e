import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { prepare } from './prepare.ts';
import { ask, claimOne, exchangeWith, newReturn, newShop } from './testing.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

test('a job keeps what the provider is asked for, and no lines: two dozen large returns may be processed at once', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
  expect(of.lineItems).toHaveLength(1);
  await ask(db.pool, of);
  const { details, steps } = await prepare(db.pool, await claimOne(db.pool));
  expect(details.lineItems).toEqual([]);
  expect(details).toMatchObject({ id: of.id, order: of.order, exchanges: of.exchanges });
  expect(steps.map(({ kind }) => kind)).toEqual(['exchange_order', 'refund']);
});
