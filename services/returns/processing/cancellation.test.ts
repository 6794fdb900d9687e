import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  EffectKind,
  EffectState,
  SettleEffectRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  ProcessReturnResponse_Refused_Code as RefusalCode,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  creating,
  effectKey,
  exchangeWith,
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
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure, type CommerceProvider } from '../../commerce/provider.ts';
import { reconcile } from '../../commerce/reconcile.ts';
import { cancelReturn } from '../review/cancel.ts';
import { listEffects, settleEffect } from './effects.ts';

// A return whose exchange order was made, and whose refund the provider rejects: its merchant has refunded the line.

let db: TestDatabase;
let commerce: EmbeddedCommerce;
let of: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());
beforeEach(async () => {
  of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
});

const refused = () => Promise.reject(new CommerceFailure('final', 'the line was refunded'));
const lost = () =>
  Promise.reject(new CommerceFailure('passing', 'lost', { retryAfterMs: 300_000 }));

async function processed(provider: CommerceProvider = creating(commerce, 'refund', refused)) {
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, provider));
}

const cancel = (more: MessageInitShape<typeof CancelReturnRequestSchema> = {}) =>
  cancelReturn(
    storeOf(db.pool),
    create(CancelReturnRequestSchema, { shopId: of.shopId, actor, returnId: of.id, ...more }),
  );
const run = (provider: CommerceProvider = commerce) => runDue(runDeps(db.pool, provider));
const ledger = () => commerce.ordersOf(of.id);
const stateOf = async () => (await reload(db.pool, of)).state;
const effectOf = async (kind: EffectKind) =>
  (await listEffects(db.pool, { shopId: of.shopId, returnId: of.id })).find(
    (one) => one.kind === kind,
  );

/** Each pause is longer than the limit of retries, so the first lost answer ends the run. */
function withoutRetries() {
  return db.pool.query('update settings set processing_retry_minutes = 1 where shop_id = $1', [
    of.shopId,
  ]);
}

describe('the cancellation of a return whose exchange order was made', () => {
  beforeEach(() => processed());

  test('cancels the order first, and then the return', async () => {
    const queued = await cancel({ reason: 'the shopper kept the goods' });
    expect(queued).toMatchObject({ state: ReturnState.OPEN, processing: true });
    await run();
    expect(await reload(db.pool, of)).toMatchObject({
      state: ReturnState.CANCELLED,
      processing: false,
      refunds: [],
      exchangeOrders: [{}],
    });
    const { orders, cancellations } = await ledger();
    expect(orders).toHaveLength(1);
    const idempotencyKey = await effectKey(db.pool, of, 'order_cancel');
    expect(cancellations).toMatchObject([{ idempotencyKey, calls: 1, amount: '0' }]);
    expect(await triggersOf(db.pool, of)).toContain('return.updated');
    const kinds = (await timelineOf(db.pool, of)).map(({ kind }) => kind);
    expect(kinds.slice(-3)).toEqual([
      'return.cancellation.queued',
      'return.processing.order_cancel',
      'return.cancelled',
    ]);
  });

  test('names the order, and is one of the effects', async () => {
    let asked: unknown;
    const watching = creating(commerce, 'order_cancel', (request, signal) => {
      asked = request.orderToCancel;
      return commerce.create(request, signal);
    });
    await cancel();
    await run(watching);
    const [order] = (await reload(db.pool, of)).exchangeOrders;
    expect(asked).toEqual({ id: order?.id, name: order?.name });
    expect(await effectOf(EffectKind.ORDER_CANCEL)).toMatchObject({
      state: EffectState.MADE,
      amount: { value: '0', currency: 'GBP' },
    });
  });

  test('is queued once for a repeated key, and rejected while it is queued', async () => {
    const keyed = { idempotencyKey: 'cancel-1' };
    await cancel(keyed);
    expect(await cancel(keyed)).toMatchObject({ processing: true });
    await expect(cancel()).rejects.toMatchObject({ code: Code.FailedPrecondition });
    await run();
    expect((await ledger()).cancellations).toHaveLength(1);
    expect(await cancel(keyed)).toMatchObject({ state: ReturnState.CANCELLED });
  });

  test('is not mistaken for processing', async () => {
    await cancel();
    expect(await requestProcessing(db.pool, of)).toMatchObject({
      case: 'refused',
      value: { code: RefusalCode.UNPROCESSABLE_RETURN },
    });
    await run();
    expect((await ledger()).refunds).toEqual([]);
  });

  test('that the provider rejects leaves the return as it was', async () => {
    await cancel();
    const shipped = () => Promise.reject(new CommerceFailure('final', 'the order was shipped'));
    await run(creating(commerce, 'order_cancel', shipped));
    expect(await reload(db.pool, of)).toMatchObject({ state: ReturnState.OPEN, processing: false });
    expect(await effectOf(EffectKind.ORDER_CANCEL)).toMatchObject({
      state: EffectState.PLANNED,
      problem: 'the order was shipped',
    });
    expect((await triggersOf(db.pool, of)).at(-1)).toBe('return.processing.failed');
    await processed(commerce);
    expect(await stateOf()).toBe(ReturnState.CLOSED);
  });

  test('keeps the additional details of the failed run for the next one', async () => {
    const details = { gift: { value: { case: 'truth' as const, value: true } } };
    await requestProcessing(db.pool, of, { details });
    await run(creating(commerce, 'refund', refused));
    await cancel();
    await run(creating(commerce, 'order_cancel', refused));
    await requestProcessing(db.pool, of);
    const { rows } = await db.pool.query(
      'select details from processing_jobs where shop_id = $1 and return_id = $2 order by id desc limit 1',
      [of.shopId, of.id],
    );
    expect(rows).toEqual([{ details: { gift: true } }]);
  });

  test('with a lost answer finds what was made, and requests nothing again', async () => {
    await cancel();
    let calls = 0;
    const losing = creating(commerce, 'order_cancel', async (request, signal) => {
      calls += 1;
      await commerce.create(request, signal);
      throw new CommerceFailure('passing', 'lost');
    });
    await run(losing);
    expect(calls).toBe(1);
    expect(await stateOf()).toBe(ReturnState.CANCELLED);
    expect((await ledger()).cancellations).toMatchObject([{ calls: 1 }]);
  });

  test('differs nowhere from the books of the provider', async () => {
    await cancel();
    await run();
    const [from, to] = [-1, 1].map((days) => new Date(Date.now() + days * 43_200_000));
    if (!from || !to) throw new Error('no period');
    const period = { shopId: of.shopId, from, to };
    expect(await reconcile(db.pool, commerce, period)).toMatchObject({ compared: 2, total: 0 });
    const unlisted = { ...commerce, list: async () => undefined };
    expect(await reconcile(db.pool, unlisted, period)).toMatchObject({ compared: 2, total: 0 });
  });
});

describe('a cancellation whose outcome is unknown', () => {
  beforeEach(async () => {
    await processed();
    await withoutRetries();
    await cancel();
    await run(creating(commerce, 'order_cancel', lost));
    await passTwoMinutes(db.pool);
  });
  const settle = (made: MessageInitShape<typeof SettleEffectRequestSchema>['made']) => {
    const about = { shopId: of.shopId, actor, returnId: of.id, kind: EffectKind.ORDER_CANCEL };
    return settleEffect(
      { ...changeDeps(db.pool), watch },
      create(SettleEffectRequestSchema, { ...about, made }),
    );
  };

  test('prevents processing', async () => {
    expect(await effectOf(EffectKind.ORDER_CANCEL)).toMatchObject({ state: EffectState.UNKNOWN });
    expect(await requestProcessing(db.pool, of)).toMatchObject({ case: 'refused' });
  });

  test('is continued by another cancellation', async () => {
    await cancel();
    await run();
    expect(await stateOf()).toBe(ReturnState.CANCELLED);
    expect((await ledger()).cancellations).toHaveLength(1);
  });

  test('that a person has found lets the return be cancelled at once', async () => {
    await settle({ providerId: 'C-7' });
    expect(await cancel()).toMatchObject({ state: ReturnState.CANCELLED });
    expect((await ledger()).cancellations).toEqual([]);
  });

  test('has no amount', async () => {
    await expect(settle({ providerId: 'C-7', amount: '1.00' })).rejects.toMatchObject({
      field: 'made.amount',
    });
  });
});

describe('an exchange order with an unknown outcome', () => {
  beforeEach(withoutRetries);

  test('is found and cancelled', async () => {
    const answering = creating(commerce, 'exchange_order', async (request, signal) => {
      await commerce.create(request, signal);
      return lost();
    });
    await processed(answering);
    await cancel();
    await run();
    expect(await reload(db.pool, of)).toMatchObject({
      state: ReturnState.CANCELLED,
      exchangeOrders: [{}],
    });
    expect((await ledger()).cancellations).toHaveLength(1);
  });

  test('that was not made needs no cancellation', async () => {
    await processed(creating(commerce, 'exchange_order', lost));
    await cancel();
    await run();
    expect(await stateOf()).toBe(ReturnState.CANCELLED);
    expect(await ledger()).toMatchObject({ orders: [], cancellations: [] });
  });

  test('that may still be made is waited for', async () => {
    await processed(creating(commerce, 'exchange_order', lost));
    await cancel();
    const slow = { ...commerce, settledAfterMs: 86_400_000 };
    await run(slow);
    expect(await reload(db.pool, of)).toMatchObject({ state: ReturnState.OPEN, processing: true });
    expect(await ledger()).toMatchObject({ orders: [], cancellations: [] });
  });
});

test('a return with more than an exchange order is not cancelled', async () => {
  await withoutRetries();
  await processed(creating(commerce, 'refund', lost));
  await expect(cancel()).rejects.toMatchObject({ message: expect.stringContaining('unknown') });
});
