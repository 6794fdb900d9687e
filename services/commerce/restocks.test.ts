import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  EffectKind,
  EffectState,
  Difference_Problem as Problem,
  SettleEffectRequestSchema,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  actor,
  changeSettings,
  creating,
  effectKey,
  newReturn,
  newShop,
  passTwoMinutes,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
  watch,
} from '../../test/kit/services/processing.ts';
import { changeDeps } from '../../test/kit/services/return-stores.ts';
import { settleEffect } from '../returns/processing/effects.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from './embedded.ts';
import { CommerceFailure, type CommerceProvider } from './provider.ts';
import { reconcile } from './reconcile.ts';

// Restocks in the books, and what a person says about them.

let db: TestDatabase;
let commerce: EmbeddedCommerce;
let of: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());
beforeEach(async () => {
  of = await newReturn(db.pool, await newShop(db.pool, { restockMode: RestockMode.PROVIDER }));
});

async function processed(provider: CommerceProvider): Promise<void> {
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, provider));
}

const HALF_A_DAY_MS = 43_200_000;
const compared = (provider: CommerceProvider) => {
  const [from, to] = [-HALF_A_DAY_MS, HALF_A_DAY_MS].map((ms) => new Date(Date.now() + ms));
  if (!from || !to) throw new Error('no period');
  return reconcile(db.pool, provider, { shopId: of.shopId, from, to });
};

describe('the comparison with the provider', () => {
  test('finds no difference in a restock that the provider lists without amount and currency', async () => {
    await processed(commerce);
    const bare = {
      ...commerce,
      async list(...words: Parameters<EmbeddedCommerce['list']>) {
        const page = await commerce.list(...words);
        const effects = (page?.effects ?? []).map((one) =>
          one.kind === 'restock' ? { ...one, amount: '0', currency: '' } : one,
        );
        return { effects, cursor: '' };
      },
    };
    expect(await compared(bare)).toMatchObject({ compared: 2, total: 0 });
  });

  test('does not miss a restock at a provider that cannot find restocks', async () => {
    await processed(commerce);
    const blind: CommerceProvider = {
      ...commerce,
      repeatableForMs: { restock: 1 },
      list: async () => undefined,
      find: (request, signal) =>
        request.kind === 'restock' ? Promise.resolve(undefined) : commerce.find(request, signal),
    };
    expect(await compared(blind)).toMatchObject({ compared: 1, total: 0 });
  });

  test('finds a restock that the provider does not know', async () => {
    await processed(commerce);
    const key = await effectKey(db.pool, of, 'restock');
    await db.pool.query('delete from commerce_ledger where idempotency_key = $1', [key]);
    expect((await compared(commerce)).differences).toMatchObject([
      { problem: Problem.MISSING, kind: 'restock', key, ours: { value: '0', currency: 'GBP' } },
    ]);
  });
});

describe('a restock with an unknown outcome', () => {
  const settle = (made: MessageInitShape<typeof SettleEffectRequestSchema>['made']) => {
    const about = { shopId: of.shopId, actor, returnId: of.id, kind: EffectKind.RESTOCK };
    return settleEffect(
      { ...changeDeps(db.pool), watch },
      create(SettleEffectRequestSchema, { ...about, made }),
    );
  };
  /** A restock that fails. The pause after it is longer than the limit of retries, so the run ends. */
  const failing = (o: { provider?: CommerceProvider; isUnsent: boolean }) => {
    const failure = new CommerceFailure('passing', 'no answer', {
      isUnsent: o.isUnsent,
      retryAfterMs: 300_000,
    });
    return creating(o.provider ?? commerce, 'restock', () => Promise.reject(failure));
  };
  /** A provider that cannot find restocks, and keeps their keys for some time. */
  const blind = (ms: number): CommerceProvider => ({
    ...commerce,
    settledAfterMs: 1,
    find: async () => undefined,
    repeatableForMs: { restock: ms },
  });
  const ageByHours = async (hours: number) => {
    await db.pool.query(
      `update processing_outcomes
          set asked_at = asked_at - make_interval(hours => $2::int),
              first_asked_at = first_asked_at - make_interval(hours => $2::int)
        where shop_id = $1`,
      [of.shopId, hours],
    );
    await passTwoMinutes(db.pool);
  };
  beforeEach(async () => {
    await db.pool.query('update settings set processing_retry_minutes = 1 where shop_id = $1', [
      of.shopId,
    ]);
    await processed(failing({ isUnsent: false }));
    await passTwoMinutes(db.pool);
  });

  test('that was made has any text as id, and no event restocks the goods again', async () => {
    const made = await settle({ providerId: 'adjustment/7' });
    expect(made).toMatchObject({ state: EffectState.MADE, providerId: 'adjustment/7' });
    await changeSettings(db.pool, of.shopId, { restockMode: RestockMode.WEBHOOK });
    await processed(commerce);
    expect((await commerce.ordersOf(of.id)).restocks).toEqual([]);
    const triggers = await triggersOf(db.pool, of);
    expect(triggers).toContain('return.closed');
    expect(triggers).not.toContain('restock.requested');
  });

  test('that was not made is requested by the next run', async () => {
    expect(await settle(undefined)).toMatchObject({ state: EffectState.PLANNED });
    await processed(commerce);
    expect((await commerce.ordersOf(of.id)).restocks).toMatchObject([{ calls: 1 }]);
  });

  test('is not requested again when the provider may have forgotten the key', async () => {
    const day = 86_400_000;
    await processed(blind(1));
    expect((await commerce.ordersOf(of.id)).restocks).toEqual([]);
    expect((await triggersOf(db.pool, of)).at(-1)).toBe('return.processing.failed');
    await processed(blind(day));
    expect((await commerce.ordersOf(of.id)).restocks).toMatchObject([{ calls: 1 }]);
  });

  test('counts from its first request, also after repeats that were not sent', async () => {
    await ageByHours(11);
    await processed(failing({ provider: blind(HALF_A_DAY_MS), isUnsent: true }));
    const { rows } = await db.pool.query<{ isRenewed: boolean }>(
      `select asked_at > now() - interval '1 hour' as "isRenewed" from processing_outcomes
        where shop_id = $1 and kind = 'restock'`,
      [of.shopId],
    );
    expect(rows).toEqual([{ isRenewed: true }]);
    await ageByHours(2);
    await processed(blind(HALF_A_DAY_MS));
    expect((await commerce.ordersOf(of.id)).restocks).toEqual([]);
    expect((await triggersOf(db.pool, of)).at(-1)).toBe('return.processing.failed');
  });

  test('counts from the next request after a person said that nothing was made', async () => {
    await ageByHours(11);
    await settle(undefined);
    await processed(failing({ isUnsent: false }));
    await ageByHours(2);
    await processed(blind(HALF_A_DAY_MS));
    expect((await commerce.ordersOf(of.id)).restocks).toMatchObject([{ calls: 1 }]);
  });

  test('has no amount', async () => {
    const settled = settle({ providerId: 'adjustment/7', amount: '1.00' });
    await expect(settled).rejects.toMatchObject({ field: 'made.amount' });
  });
});
