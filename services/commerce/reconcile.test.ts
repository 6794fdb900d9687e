import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Difference_Problem as Problem } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { reportRefund } from '../../test/kit/commerce/inbound.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  creating,
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
import { reconcile } from './reconcile.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
let shopId: bigint;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
});

const DAY_MS = 86_400_000;
const today = () => ({
  shopId,
  from: new Date(Date.now() - DAY_MS / 2),
  to: new Date(Date.now() + DAY_MS / 2),
});
const compared = (provider: CommerceProvider = commerce) => reconcile(db.pool, provider, today());

async function processed(provider: CommerceProvider = commerce): Promise<Return> {
  const of = await newReturn(db.pool, shopId, exchangeWith('refund'));
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, provider));
  return of;
}

/** Pretends that the request of an effect was sent two hours ago. */
async function ageRequests(of: Return): Promise<void> {
  await db.pool.query(
    "update processing_outcomes set asked_at = asked_at - interval '2 hours' where return_id = $1",
    [of.id],
  );
}

describe('a reconciliation', () => {
  test('finds no difference after returns were processed', async () => {
    await processed();
    await processed();
    expect(await compared()).toEqual({
      compared: 4,
      listed: true,
      differences: [],
      total: 0,
      isComplete: true,
    });
  });

  test('finds the same for a provider that cannot list its effects', async () => {
    await processed();
    const silent = { ...commerce, list: async () => undefined };
    expect(await compared(silent)).toMatchObject({ compared: 2, listed: false, total: 0 });
  });

  test('finds an effect that the provider does not know', async () => {
    const key = await effectKey(db.pool, await processed(), 'refund');
    await db.pool.query('delete from commerce_ledger where idempotency_key = $1', [key]);
    const { differences, total } = await compared();
    expect(total).toBe(1);
    expect(differences).toMatchObject([
      { problem: Problem.MISSING, kind: 'refund', key, ours: { value: '8.00', currency: 'GBP' } },
    ]);
  });

  test('finds a refund that a person made, when the provider has reported it with its amount', async () => {
    const of = await processed();
    const key = await effectKey(db.pool, of, 'refund');
    const { rows } = await db.pool.query<{ id: string }>(
      'delete from commerce_ledger where idempotency_key = $1 returning provider_id::text as id',
      [key],
    );
    const refund = { quantity: 1, providerRefundId: rows[0]?.id ?? '' };
    await reportRefund(
      db.pool,
      { shopId, providerOrderId: 1n, line: 2n },
      { ...refund, amount: '8.00' },
    );
    expect((await compared()).total).toBe(0);
    await db.pool.query('update inbound_refunds set amount = 7.99 where shop_id = $1', [shopId]);
    expect((await compared()).differences).toMatchObject([{ problem: Problem.MISSING, key }]);
  });

  test('finds an effect that was never requested', async () => {
    await processed();
    const key = `rms:return:${randomInt(1, 1_000_000)}:other`;
    const nothing = { items: [], lines: [], stock: [], orderToCancel: undefined, details: {} };
    await commerce.create(
      {
        kind: 'refund',
        shopId,
        returnId: 1n,
        providerOrderId: 1n,
        orderName: '',
        key,
        amount: '5.00',
        currency: 'GBP',
        ...nothing,
      },
      new AbortController().signal,
    );
    expect((await compared()).differences).toMatchObject([
      { problem: Problem.UNEXPECTED, key, theirs: { value: '5.00', currency: 'GBP' } },
    ]);
  });

  test("leaves out a merchant's own refund that was reported, and no other", async () => {
    const listed = (key: string, id: string) => ({
      kind: 'refund' as const,
      key,
      id,
      name: '',
      gateway: '',
      provider: 'test',
      amount: '5.00',
      currency: 'GBP',
      createdAt: new Date(),
    });
    const of = { shopId, providerOrderId: 1n, line: 2n };
    await reportRefund(db.pool, of, { quantity: 1, providerRefundId: 'R-1' });
    await reportRefund(db.pool, of, { quantity: 1, providerRefundId: 'R-2' });
    const effects = [
      listed('own-1', 'R-1'),
      listed('rms:return:1:x', 'R-2'),
      listed('own-3', 'R-3'),
    ];
    const list = async () => ({ effects, cursor: '' });
    const { differences } = await compared({ ...commerce, list });
    expect(differences.map(({ providerId }) => providerId)).toEqual(['R-2', 'R-3']);
  });

  test('finds another amount, to the cent', async () => {
    const key = await effectKey(db.pool, await processed(), 'exchange_order');
    await db.pool.query('update commerce_ledger set amount = 12.01 where idempotency_key = $1', [
      key,
    ]);
    expect((await compared()).differences).toMatchObject([
      { problem: Problem.AMOUNT, key, ours: { value: '12.00' }, theirs: { value: '12.01' } },
    ]);
  });

  test('finds a refund that was made twice, or under another id', async () => {
    await processed();
    const twice = {
      ...commerce,
      list: async (...words: Parameters<EmbeddedCommerce['list']>) => {
        const page = await commerce.list(...words);
        const effects = page?.effects.filter(({ kind }) => kind === 'refund') ?? [];
        return {
          effects: [...effects, ...effects.map((one) => ({ ...one, id: '7' }))],
          cursor: '',
        };
      },
    };
    const { differences } = await compared(twice);
    expect(differences).toMatchObject([{ problem: Problem.DUPLICATE, providerId: '7' }]);
  });

  test('ends when the pages of the provider do not', async () => {
    const list = async () => ({ effects: [], cursor: 'same' });
    await expect(compared({ ...commerce, list })).rejects.toThrow('do not end');
  });

  test('leaves out the effects of checks', async () => {
    const nothing = { items: [], lines: [], stock: [], orderToCancel: undefined, details: {} };
    const key = 'rms:check:1:refund';
    await commerce.create(
      {
        kind: 'refund',
        shopId,
        returnId: 1n,
        providerOrderId: 1n,
        orderName: '',
        key,
        amount: '1.10',
        currency: 'GBP',
        ...nothing,
      },
      new AbortController().signal,
    );
    expect(await compared()).toMatchObject({ compared: 0, total: 0 });
  });

  test('finds a request without an answer after an hour, whether it took effect or not', async () => {
    const lost = () => Promise.reject(new CommerceFailure('passing', 'timed out'));
    const made = creating(commerce, 'exchange_order', async (request, signal) => {
      await commerce.create(request, signal);
      return lost();
    });
    const stop = { retryBackoff: () => 3_600_000 };
    const providers = [made, creating(commerce, 'exchange_order', lost)];
    const keys: string[] = [];
    for (const provider of providers) {
      const of = await newReturn(db.pool, shopId, exchangeWith('refund'));
      await requestProcessing(db.pool, of);
      await runDue({ ...runDeps(db.pool, provider), ...stop });
      expect((await compared()).total).toBe(keys.length);
      await ageRequests(of);
      keys.push(await effectKey(db.pool, of, 'exchange_order'));
    }
    const { differences } = await compared();
    expect(differences.map(({ problem, key }) => ({ problem, key }))).toEqual(
      keys.map((key) => ({ problem: Problem.UNANSWERED, key })),
    );
    expect(differences.map(({ theirs }) => theirs?.value)).toEqual(['12.00', undefined]);
  });

  test('finds an effect that the provider rejected, and made all the same', async () => {
    const rejecting = creating(commerce, 'refund', async (request, signal) => {
      await commerce.create(request, signal);
      throw new CommerceFailure('final', 'declined');
    });
    const key = await effectKey(db.pool, await processed(rejecting), 'refund');
    expect((await compared()).differences).toMatchObject([
      { problem: Problem.UNEXPECTED, kind: 'refund', key, theirs: { value: '8.00' } },
    ]);
  });

  test('leaves out other shops and other days', async () => {
    await processed();
    const { from, to } = today();
    const dayBefore = { from: new Date(from.getTime() - DAY_MS), to: from };
    expect(await reconcile(db.pool, commerce, { shopId, ...dayBefore })).toMatchObject({
      compared: 0,
    });
    const other = await newShop(db.pool);
    expect(await reconcile(db.pool, commerce, { shopId: other, from, to })).toMatchObject({
      compared: 0,
    });
  });

  test('rejects when the provider does not answer', async () => {
    await processed();
    const list = () => Promise.reject(new CommerceFailure('passing', 'timed out'));
    await expect(compared({ ...commerce, list })).rejects.toThrow('timed out');
  });
});
