import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from './embedded.ts';
import { type EffectKind, type EffectRequest, isFinal } from './provider.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
const signal = new AbortController().signal;

beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

/** Only the query of the ledger needs a stored return; the provider's calls do not. */
function request(kind: EffectKind = 'refund'): EffectRequest {
  const returnId = BigInt(randomInt(1_000, 900_000_000));
  return {
    kind,
    shopId: 7n,
    returnId,
    providerOrderId: 1n,
    orderName: '#1',
    key: `rms:${returnId}:${kind}`,
    amount: '12.50',
    currency: 'GBP',
    items: [],
    lines: [],
    stock: [],
    orderToCancel: undefined,
    details: {},
  };
}

async function ledger(returnId: bigint) {
  const { rows } = await db.pool.query(
    'select kind, amount, calls, additional_details from commerce_ledger where shop_id = 7 and return_id = $1',
    [returnId],
  );
  return rows;
}

describe('the embedded commerce provider', () => {
  test('makes one refund per key, however often it is called', async () => {
    const asked = request();
    const [first, ...others] = await Promise.all(
      Array.from({ length: 5 }, () => commerce.create(asked, signal)),
    );
    expect(others.every((refund) => refund.id === first?.id)).toBe(true);
    expect(first).toMatchObject({ amount: '12.50', currency: 'GBP' });
    expect(await ledger(asked.returnId)).toMatchObject([{ kind: 'refund', calls: 5 }]);
  });

  test('returns the first result when a key is used again with another amount', async () => {
    const asked = request();
    await commerce.create(asked, signal);
    const second = await commerce.create({ ...asked, amount: '99.00' }, signal);
    expect(second.amount).toBe('12.50');
  });

  test('numbers its orders from 10^12 and keeps their additional details', async () => {
    const details = { picker: 'Ann', rush: true, weight: 1.5, note: null };
    const asked = { ...request('exchange_order'), details };
    const placed = await commerce.create(asked, signal);
    expect(BigInt(placed.id)).toBeGreaterThanOrEqual(10n ** 12n);
    expect(await ledger(asked.returnId)).toMatchObject([{ additional_details: details }]);
  });

  test('finds what a key made, and only that', async () => {
    const asked = request();
    expect(await commerce.find(asked, signal)).toBeUndefined();
    const made = await commerce.create(asked, signal);
    expect(await commerce.find(asked, signal)).toEqual(made);
    expect(await commerce.find({ ...asked, kind: 'gift_card' }, signal)).toBeUndefined();
    expect(await commerce.find({ ...asked, shopId: 8n }, signal)).toBeUndefined();
    expect(await ledger(asked.returnId)).toMatchObject([{ calls: 1 }]);
  });

  test('fails as often as planned, without an effect', async () => {
    const asked = request();
    await planFailure(asked.returnId, 'passing', 1);
    const error = await commerce.create(asked, signal).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ kind: 'passing' });
    expect(await ledger(asked.returnId)).toEqual([]);
    await commerce.create(asked, signal);
    expect(await ledger(asked.returnId)).toHaveLength(1);
  });

  test('distinguishes final failures', async () => {
    const asked = request('gift_card');
    await planFailure(asked.returnId, 'final', 1);
    const error = await commerce.create(asked, signal).catch((caught: unknown) => caught);
    expect(isFinal(error)).toBe(true);
  });
});

/** Plans a failure in SQL, because `failNext` needs a stored return, and these exist only in the ledger. */
async function planFailure(returnId: bigint, kind: 'passing' | 'final', times: number) {
  await db.pool.query(
    'insert into commerce_failures (shop_id, return_id, kind, remaining) values (7, $1, $2, $3)',
    [returnId, kind, times],
  );
}
