import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  EffectKind,
  EffectState,
  SettleEffectRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  newReturn,
  newShop,
  passTwoMinutes,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  triggersOf,
  watch,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure, type CommerceProvider } from '../../commerce/provider.ts';
import { cancelReturn } from '../review/cancel.ts';
import { settleEffect } from './effects.ts';

// What a person says about an effect with an unknown outcome.

let db: TestDatabase;
let of: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  of = await newReturn(db.pool, await newShop(db.pool));
});

const REFUND = EffectKind.REFUND;
const found = { providerId: 'R-991', gateway: 'card' };

function settle(o: MessageInitShape<typeof SettleEffectRequestSchema>) {
  const about = { shopId: of.shopId, actor, returnId: of.id, kind: REFUND };
  const deps = { ...changeDeps(db.pool), watch };
  return settleEffect(deps, create(SettleEffectRequestSchema, { ...about, ...o }));
}

/** Processes the return at a provider that makes the refund with another amount. */
async function processWithOtherAmount(): Promise<void> {
  const commerce: CommerceProvider = {
    ...createEmbeddedCommerce(db.pool),
    create: async ({ currency }) => ({
      id: '1',
      name: '',
      gateway: 'card',
      provider: 'test',
      createdAt: undefined,
      amount: '19.99',
      currency,
    }),
  };
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
}

describe('an effect with an unknown outcome', () => {
  beforeEach(async () => {
    await processWithOtherAmount();
    await passTwoMinutes(db.pool);
  });

  test('that was made is shown with its amount, and the return can be closed', async () => {
    const effect = await settle({ made: { ...found, amount: '19.99' } });
    const amount = { value: '19.99', currency: 'GBP' };
    expect(effect).toMatchObject({ state: EffectState.MADE, providerId: 'R-991', problem: '' });
    expect(effect.amount).toMatchObject(amount);
    const { refunds } = await reload(db.pool, of);
    expect(refunds).toMatchObject([
      { gateway: 'card', provider: 'embedded', money: { value: '19.99' } },
    ]);
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
    expect((await createEmbeddedCommerce(db.pool).ordersOf(of.id)).refunds).toEqual([]);
    const triggers = await triggersOf(db.pool, of);
    expect(triggers).toEqual(['return.processing.failed', 'return.updated', 'return.closed']);
  });

  test('that was made without an amount has the requested one', async () => {
    expect((await settle({ made: found })).amount).toMatchObject({ value: '20.00' });
  });

  test('that was made at Shopify has the number of the global id, as its events have it', async () => {
    await db.pool.query(
      `insert into commerce_connections (shop_id, adapter, shop_domain, scopes)
       values ($1, 'shopify', 'settled.myshopify.com', '')`,
      [of.shopId],
    );
    const effect = await settle({ made: { ...found, providerId: 'gid://shopify/Refund/991' } });
    expect(effect.providerId).toBe('991');
    expect((await reload(db.pool, of)).refunds).toMatchObject([{ provider: 'shopify' }]);
  });

  test('that was not made is requested by the next run', async () => {
    expect(await settle({})).toMatchObject({ state: EffectState.PLANNED, problem: '' });
    const commerce = createEmbeddedCommerce(db.pool);
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, commerce));
    expect((await commerce.ordersOf(of.id)).refunds).toMatchObject([{ amount: '20.00' }]);
  });

  test('is settled once', async () => {
    const both = await Promise.allSettled([settle({ made: found }), settle({})]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect(settle({ made: found })).rejects.toThrow('known');
  });

  test('is not settled while the return is being processed', async () => {
    await requestProcessing(db.pool, of);
    await expect(settle({})).rejects.toThrow('being processed');
  });

  test.each([
    ['made.amount', { made: { ...found, amount: '-1.00' } }],
    ['made.amount', { made: { ...found, amount: '0.00' } }],
    ['made.amount', { made: { ...found, amount: '1.001' } }],
    ['made.provider_id', { made: { providerId: '' } }],
    ['kind', { kind: EffectKind.UNSPECIFIED }],
  ])('is not settled with an invalid %s', async (field, o) => {
    await expect(settle(o)).rejects.toMatchObject({ field });
    expect(await triggersOf(db.pool, of)).toEqual(['return.processing.failed']);
  });
});

describe('a refund whose answer was lost', () => {
  const cancel = () => {
    const { shopId, id: returnId } = of;
    return cancelReturn(
      storeOf(db.pool),
      create(CancelReturnRequestSchema, { shopId, actor, returnId }),
    );
  };
  const lastText = async () => (await timelineOf(db.pool, of)).at(-1)?.text;

  test('prevents the cancellation until a person says what was made; both texts name the command', async () => {
    const lost: CommerceProvider = {
      ...createEmbeddedCommerce(db.pool),
      create: () => Promise.reject(new CommerceFailure('passing', 'no answer')),
    };
    await requestProcessing(db.pool, of);
    await runDue({ ...runDeps(db.pool, lost), retryBackoff: () => 3_600_000 });
    const named = expect.stringContaining(
      'have an operator record what they show (`commerce settle`)',
    );
    expect(await lastText()).toEqual(named);
    expect(await lastText()).toContain('The refund may have been made');
    await expect(cancel()).rejects.toMatchObject({ message: named });
    await passTwoMinutes(db.pool);
    await settle({});
    expect((await cancel()).state).toBe(ReturnState.CANCELLED);
  });
});

describe('there is nothing to settle', () => {
  test('while the request may still arrive', async () => {
    await processWithOtherAmount();
    await expect(settle({})).rejects.toThrow('may still arrive');
  });

  test('without such an effect', async () => {
    await processWithOtherAmount();
    await expect(settle({ kind: EffectKind.GIFT_CARD })).rejects.toThrow('no such effect');
  });

  test('without the return', async () => {
    await expect(settle({ returnId: of.id + 1_000n })).rejects.toThrow('no such return');
  });
});
