import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  changeSettings,
  effectKey,
  exchangeWith,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import {
  createEmbeddedCommerce,
  type EmbeddedCommerce,
  type LedgerEntry,
} from '../commerce/embedded.ts';

/** The database that was lost with its last commits, and the one that serves after it. */
let lost: TestDatabase;
let promoted: TestDatabase;
/** The provider knows both. */
let provider: EmbeddedCommerce;
beforeAll(async () => {
  [lost, promoted] = await Promise.all([
    createTestDatabase('returns'),
    createTestDatabase('returns'),
  ]);
  provider = createEmbeddedCommerce(lost.pool);
});
afterAll(() => Promise.all([lost.drop(), promoted.drop()]));

const settings = { currency: 'GBP', restockMode: RestockMode.PROVIDER };

async function processed(
  { pool }: TestDatabase,
  shopId: bigint,
  rest: 'gift card' | 'refund',
): Promise<Return> {
  const of = await newReturn(pool, shopId, exchangeWith(rest));
  await requestProcessing(pool, of);
  await runDue(runDeps(pool, provider));
  return of;
}

describe('a return with the id of a return that a promoted database has lost', () => {
  test.each(['refund', 'gift card'] as const)(
    'gets its own exchange order, %s and restock',
    async (rest) => {
      const shopId = await newShop(lost.pool, settings);
      await changeSettings(promoted.pool, shopId, settings);
      const first = await processed(lost, shopId, rest);
      const second = await processed(promoted, shopId, rest);
      expect(second.id).toBe(first.id);
      const made = await provider.ordersOf(first.id);
      const keysOf = async (kind: string) =>
        [
          await effectKey(lost.pool, first, kind),
          await effectKey(promoted.pool, second, kind),
        ].sort();
      const seen = Object.values(made).flatMap((entries: readonly LedgerEntry[]) =>
        entries.map(({ idempotencyKey, calls }) => ({ idempotencyKey, calls })),
      );
      const kinds = ['exchange_order', rest === 'refund' ? 'refund' : 'gift_card', 'restock'];
      const keys = (await Promise.all(kinds.map(keysOf))).flat();
      expect(new Set(keys).size).toBe(6);
      expect(seen.map(({ idempotencyKey }) => idempotencyKey).sort()).toEqual(keys.sort());
      expect(seen.every(({ calls }) => calls === 1)).toBe(true);
    },
  );
});

describe('a return during an update from the release whose keys have no random value', () => {
  const planned = (of: Return) =>
    promoted.pool.query(
      `insert into processing_outcomes (shop_id, return_id, kind, key, amount, currency)
       values ($1, $2, 'refund', $3, 20, 'GBP')
       on conflict (shop_id, return_id, kind, key) do nothing`,
      [of.shopId, of.id, `rms:return:${of.id}:refund`],
    );

  test('keeps the key that a process of that release has planned', async () => {
    const of = await newReturn(promoted.pool, await newShop(promoted.pool));
    await planned(of);
    await requestProcessing(promoted.pool, of);
    await runDue(runDeps(promoted.pool, createEmbeddedCommerce(promoted.pool)));
    const { refunds } = await createEmbeddedCommerce(promoted.pool).ordersOf(of.id);
    expect(refunds).toMatchObject([{ idempotencyKey: `rms:return:${of.id}:refund`, calls: 1 }]);
  });

  test('gets no second refund from a process of that release', async () => {
    const of = await newReturn(promoted.pool, await newShop(promoted.pool));
    await requestProcessing(promoted.pool, of);
    await runDue(runDeps(promoted.pool, createEmbeddedCommerce(promoted.pool)));
    await expect(planned(of)).rejects.toMatchObject({
      constraint: 'processing_outcomes_one_of_kind',
    });
  });
});
