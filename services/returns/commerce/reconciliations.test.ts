import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  exchangeWith,
  newReturn,
  newShop,
  onlyProvider,
  requestProcessing,
  runDeps,
  runDue,
  silent,
} from '../../../test/kit/services/processing.ts';
import { createEmbeddedCommerce } from './embedded.ts';
import { CommerceFailure } from './provider.ts';
import { reconcileDueDays } from './reconciliations.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const never = new AbortController().signal;

test('every day of a connected shop is compared once it is over, and again until its provider answers', async () => {
  const shopId = await newShop(db.pool);
  const commerce = createEmbeddedCommerce(db.pool);
  const of = await newReturn(db.pool, shopId, exchangeWith('refund'));
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  await db.pool.query(
    `insert into commerce_connections (shop_id, adapter, url, connected_at)
     values ($1, 'http', 'https://shop.example.com/', now() - interval '3 days')`,
    [shopId],
  );
  await db.pool.query(
    "update commerce_ledger set created_at = created_at - interval '2 days', amount = amount + 1 where shop_id = $1",
    [shopId],
  );
  await db.pool.query(
    "update processing_outcomes set done_at = done_at - interval '2 days' where shop_id = $1",
    [shopId],
  );
  const results = async () => {
    const { rows } = await db.pool.query(
      `select (now() at time zone 'utc')::date - day as "daysAgo", compared, differences
         from commerce_reconciliations where shop_id = $1 order by day`,
      [shopId],
    );
    return rows;
  };
  const list = () => Promise.reject(new CommerceFailure('passing', 'timed out'));
  const silentShop = onlyProvider({ ...commerce, list });
  await reconcileDueDays({ pool: db.pool, providers: silentShop, logger: silent }, never);
  expect(await results()).toEqual([]);

  const deps = { pool: db.pool, providers: onlyProvider(commerce), logger: silent };
  await reconcileDueDays(deps, never);
  const found = await results();
  expect(found.find(({ daysAgo }) => daysAgo === 2)).toEqual({
    daysAgo: 2,
    compared: 2,
    differences: 2,
  });
  // Yesterday is due two hours after midnight.
  expect(found.length).toBeGreaterThanOrEqual(2);
  expect(found.some(({ daysAgo }) => daysAgo === 0)).toBe(false);
  await reconcileDueDays({ ...deps, providers: silentShop }, never);
  expect(await results()).toEqual(found);
});
