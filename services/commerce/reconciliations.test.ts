import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  exchangeWith,
  newReturn,
  newShop,
  onlyProvider,
  requestProcessing,
  runDeps,
  runDue,
  silent,
} from '../../test/kit/services/processing.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from './embedded.ts';
import { CommerceFailure, type CommerceProvider } from './provider.ts';
import { reconcileDueDays } from './reconciliations.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

const never = new AbortController().signal;

/**
 * A shop that was connected three days ago. Two days ago it processed this number of returns, each with an exchange
 * order and a refund.
 */
async function connectedShop(returns: number): Promise<bigint> {
  const shopId = await newShop(db.pool);
  for (let made = 0; made < returns; made += 1) {
    await requestProcessing(db.pool, await newReturn(db.pool, shopId, exchangeWith('refund')));
  }
  await runDue(runDeps(db.pool, commerce));
  await db.pool.query(
    `insert into commerce_connections (shop_id, adapter, url, connected_at)
     values ($1, 'http', 'https://shop.example.com/', now() - interval '3 days')`,
    [shopId],
  );
  await db.pool.query(
    "update commerce_ledger set created_at = created_at - interval '2 days' where shop_id = $1",
    [shopId],
  );
  await db.pool.query(
    "update processing_outcomes set done_at = done_at - interval '2 days' where shop_id = $1",
    [shopId],
  );
  return shopId;
}

/** The ledger has other amounts for the effects of this kind. */
async function changeAmounts(shopId: bigint, kind: string): Promise<void> {
  await db.pool.query(
    'update commerce_ledger set amount = amount + 1 where shop_id = $1 and kind = $2',
    [shopId, kind],
  );
}

async function results(shopId: bigint) {
  const { rows } = await db.pool.query<{
    daysAgo: number;
    compared: number;
    differences: number;
  }>(
    `select (now() at time zone 'utc')::date - day as "daysAgo", compared, differences
       from commerce_reconciliations where shop_id = $1 order by day`,
    [shopId],
  );
  return rows;
}

async function resultOf(shopId: bigint, daysAgo: number) {
  return (await results(shopId)).find((result) => result.daysAgo === daysAgo);
}

/** Compares the due days with a provider that can do only what `more` says differently. */
function compareWith(
  more: Partial<CommerceProvider>,
  o: { searchMs?: number; retryMs?: number; signal?: AbortSignal } = {},
): Promise<void> {
  const { signal = never, ...limits } = o;
  const providers = onlyProvider({ ...commerce, ...more });
  return reconcileDueDays({ pool: db.pool, providers, logger: silent, ...limits }, signal);
}

/** Like Shopify, the provider lists nothing. */
const list: CommerceProvider['list'] = async () => undefined;

test('every day of a connected shop is compared once it is over, and again until its provider answers', async () => {
  const shopId = await connectedShop(1);
  await changeAmounts(shopId, 'exchange_order');
  await changeAmounts(shopId, 'refund');
  const silentShop = { list: () => Promise.reject(new CommerceFailure('passing', 'timed out')) };
  await compareWith(silentShop);
  expect(await results(shopId)).toEqual([]);

  await compareWith({});
  const found = await results(shopId);
  expect(found.find(({ daysAgo }) => daysAgo === 2)).toEqual({
    daysAgo: 2,
    compared: 2,
    differences: 2,
  });
  // Yesterday is due two hours after midnight.
  expect(found.length).toBeGreaterThanOrEqual(2);
  expect(found.some(({ daysAgo }) => daysAgo === 0)).toBe(false);
  await compareWith(silentShop);
  expect(await results(shopId)).toEqual(found);
});

test('a day that takes several tries ends, and another shop is compared between the tries', async () => {
  const busy = await connectedShop(3);
  const other = await connectedShop(1);
  await changeAmounts(busy, 'refund');
  const asked: bigint[] = [];
  const find: CommerceProvider['find'] = (request, signal) => {
    asked.push(request.shopId);
    return commerce.find(request, signal);
  };
  await compareWith({ list, find }, { searchMs: 0 });
  expect(await resultOf(busy, 2)).toMatchObject({ compared: 6, differences: 3 });
  expect(await resultOf(other, 2)).toMatchObject({ compared: 2, differences: 0 });
  expect(asked.filter((shopId) => shopId === busy)).toHaveLength(6);
  expect(asked.slice(asked.indexOf(busy), asked.lastIndexOf(busy))).toContain(other);
});

test('the comparison of each day begins with its first effect', async () => {
  const shopId = await connectedShop(3);
  await db.pool.query(
    `update processing_outcomes set done_at = done_at - interval '1 day'
      where shop_id = $1 and return_id = (select max(return_id) from processing_outcomes where shop_id = $1)`,
    [shopId],
  );
  await compareWith({ list });
  expect(await resultOf(shopId, 3)).toMatchObject({ compared: 2 });
  expect(await resultOf(shopId, 2)).toMatchObject({ compared: 4 });
});

test('neither a stop nor a killed process loses or repeats a difference', async () => {
  const shopId = await connectedShop(2);
  await changeAmounts(shopId, 'exchange_order');
  const asked: string[] = [];
  const noting =
    (then: (count: number) => Promise<unknown>): CommerceProvider['find'] =>
    async (request, signal) => {
      asked.push(request.key);
      await then(asked.length);
      return commerce.find(request, signal);
    };
  const stopping = new AbortController();
  const stop = noting(async (count) => {
    if (count === 2) stopping.abort();
  });
  await compareWith({ list, find: stop }, { signal: stopping.signal });
  expect(await resultOf(shopId, 2)).toBeUndefined();

  // The next process compares the third effect. It hangs before it has stored this, and loses its lease.
  const hangs = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  const hang = noting(async (count) => {
    if (count < 4) return;
    hangs.resolve();
    await goesOn.promise;
  });
  const hanging = compareWith({ list, find: hang });
  await hangs.promise;
  await compareWith({ list, find: noting(async () => {}) });
  const whole = { compared: 4, differences: 2 };
  expect(await resultOf(shopId, 2)).toMatchObject(whole);
  const [first, second, third, fourth] = asked;
  expect(asked).toEqual([first, second, third, fourth, third, fourth]);
  expect(new Set(asked).size).toBe(4);
  goesOn.resolve();
  await hanging;
  expect(await resultOf(shopId, 2)).toMatchObject(whole);
});

test('a shop whose provider did not answer is tried again while another shop takes several tries', async () => {
  await connectedShop(3);
  const failing = await connectedShop(1);
  let failures = 0;
  const failOnce: CommerceProvider['list'] = async ({ shopId }) => {
    if (shopId !== failing || failures > 0) return undefined;
    failures += 1;
    throw new CommerceFailure('passing', 'timed out');
  };
  await compareWith({ list: failOnce }, { searchMs: 0, retryMs: 0 });
  expect(failures).toBe(1);
  expect(await resultOf(failing, 2)).toMatchObject({ compared: 2 });
});
