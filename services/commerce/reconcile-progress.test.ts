import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  effectKey,
  exchangeWith,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
} from '../../test/kit/services/processing.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from './embedded.ts';
import { CommerceFailure, type CommerceProvider } from './provider.ts';
import { newProgress, type Progress, type Reconciliation, reconcile } from './reconcile.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
let shopId: bigint;
let progress: Progress;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
  progress = newProgress();
});

/** Processes a return with an exchange order and a refund, which are searched for in this order. */
async function processed(): Promise<bigint> {
  const of = await newReturn(db.pool, shopId, exchangeWith('refund'));
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  return of.id;
}

const HALF_A_DAY_MS = 43_200_000;

/** Compares one effect. The provider lists nothing, unless `more` says so. */
function nextPart(more: Partial<CommerceProvider> = {}): Promise<Reconciliation> {
  const provider = { ...commerce, list: async () => undefined, ...more };
  const [from, to] = [-HALF_A_DAY_MS, HALF_A_DAY_MS].map((ms) => new Date(Date.now() + ms));
  if (!from || !to) throw new Error('no period');
  const { signal } = new AbortController();
  return reconcile(db.pool, provider, { shopId, from, to, signal, progress, searchMs: 0 });
}

/** The ledger loses the refund of a return. */
async function loseRefund(returnId: bigint): Promise<void> {
  const key = await effectKey(db.pool, { shopId, id: returnId }, 'refund');
  await db.pool.query('delete from commerce_ledger where idempotency_key = $1', [key]);
}

async function changeAmounts(): Promise<void> {
  await db.pool.query('update commerce_ledger set amount = amount + 1 where shop_id = $1', [
    shopId,
  ]);
}

describe('a reconciliation in parts', () => {
  test('searches for each effect once, and keeps the differences', async () => {
    await loseRefund(await processed());
    await processed();
    const keys: string[] = [];
    const find: CommerceProvider['find'] = (request, signal) => {
      keys.push(request.key);
      return commerce.find(request, signal);
    };
    const results: Reconciliation[] = [];
    while (!results.at(-1)?.isComplete) results.push(await nextPart({ find }));
    expect(results.map(({ compared, total }) => ({ compared, total }))).toEqual([
      { compared: 1, total: 0 },
      { compared: 2, total: 1 },
      { compared: 3, total: 1 },
      { compared: 4, total: 1 },
      { compared: 4, total: 1 },
    ]);
    expect(keys).toHaveLength(4);
    expect(new Set(keys).size).toBe(4);
  });

  test('continues with the effect for which the provider did not answer', async () => {
    await processed();
    await nextPart();
    const find = () => Promise.reject(new CommerceFailure('passing', 'timed out'));
    await expect(nextPart({ find })).rejects.toThrow('timed out');
    expect(progress).toMatchObject({ kind: 'exchange_order', searched: 1, differences: 0 });
  });

  test('counts once what the provider lists in every part', async () => {
    const returnId = await processed();
    await changeAmounts();
    await loseRefund(returnId);
    const { list } = commerce;
    expect((await nextPart({ list })).isComplete).toBe(false);
    expect((await nextPart({ list })).isComplete).toBe(false);
    expect(await nextPart({ list })).toMatchObject({ compared: 2, total: 2, isComplete: true });
  });

  test('begins again when the provider does not list its effects any more', async () => {
    await processed();
    await changeAmounts();
    await nextPart({ list: commerce.list });
    await nextPart();
    expect(await nextPart()).toMatchObject({ compared: 2, listed: false, total: 2 });
  });
});
