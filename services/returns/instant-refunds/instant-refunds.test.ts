import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  InstantRefundState,
  OpenInstantRefundRequestSchema,
  RecordLabelRequestSchema,
  SettleInstantRefundRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  creating,
  exchangeWith,
  newLine,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure } from '../../commerce/provider.ts';
import { editReturn } from '../edit/edit.ts';
import { recordLabel } from '../labels/labels.ts';
import { sweepExpired } from '../retention/expiry.ts';
import { cancelReturn } from '../review/cancel.ts';
import { openInstantRefund, settleInstantRefund } from './instant-refunds.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

function open(
  of: Pick<Return, 'shopId' | 'id'>,
  more: Exclude<
    MessageInitShape<typeof OpenInstantRefundRequestSchema>,
    { $typeName: 'rms.returns.v1.OpenInstantRefundRequest' }
  > = {},
) {
  const request = create(OpenInstantRefundRequestSchema, {
    shopId: of.shopId,
    actor: { ...actor },
    returnId: of.id,
    idempotencyKey: randomUUID(),
    amount: '8.00',
    ...more,
  });
  return openInstantRefund(db.pool, request);
}

function end(of: Pick<Return, 'shopId'>, creditId: bigint, result: InstantRefundState) {
  const request = create(SettleInstantRefundRequestSchema, {
    shopId: of.shopId,
    actor: { ...actor },
    creditId,
    result,
  });
  return settleInstantRefund(db.pool, request);
}

async function submitted(): Promise<Return> {
  return newReturn(db.pool, await newShop(db.pool));
}

const runAll = () => runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));

describe('open instant refund', () => {
  test('records a credit, with a timeline entry and no event', async () => {
    const of = await submitted();
    const credit = await open(of, { chargeReference: 'ch_1' });
    expect(credit).toMatchObject({
      returnId: of.id,
      money: { value: '8.00', currency: 'GBP' },
      chargeReference: 'ch_1',
      state: InstantRefundState.OPEN,
    });
    expect(await triggersOf(db.pool, of)).toEqual([]);
    expect((await timelineOf(db.pool, of)).at(-1)?.kind).toBe('instant_refund.opened');
  });

  test('prevents processing of the return until the instant refund ends', async () => {
    const of = await submitted();
    const credit = await open(of);
    expect(await requestProcessing(db.pool, of)).toMatchObject({ case: 'skippedInstantRefund' });
    await end(of, credit.id, InstantRefundState.CHARGED);
    expect(await requestProcessing(db.pool, of)).toMatchObject({ case: 'queued' });
  });

  test('returns the same instant refund for the same key, also in a race', async () => {
    const of = await submitted();
    const idempotencyKey = randomUUID();
    const credits = await Promise.all(
      Array.from({ length: 4 }, () => open(of, { idempotencyKey })),
    );
    expect(new Set(credits.map((credit) => credit.id)).size).toBe(1);
    await expect(open(of, { idempotencyKey, amount: '9.00' })).rejects.toMatchObject({
      reason: ErrorReason.IDEMPOTENCY_CONFLICT,
    });
  });

  test('rejects a second one while one is open', async () => {
    const of = await submitted();
    await open(of);
    await expect(open(of)).rejects.toMatchObject({ reason: ErrorReason.ALREADY_OPEN });
  });

  test('rejects a return that is queued or closed', async () => {
    const of = await submitted();
    await requestProcessing(db.pool, of);
    await expect(open(of)).rejects.toMatchObject({ reason: ErrorReason.STATE_FORBIDS });
    await runAll();
    await expect(open(of)).rejects.toMatchObject({ reason: ErrorReason.STATE_FORBIDS });
  });

  test('rejects a return that may have been refunded already', async () => {
    const of = await submitted();
    const commerce = createEmbeddedCommerce(db.pool);
    // The refund takes effect, its response is lost, and no attempt is left.
    const create: EmbeddedCommerce['create'] = async (request, signal) => {
      await commerce.create(request, signal);
      throw new CommerceFailure('passing', 'timed out');
    };
    await requestProcessing(db.pool, of);
    const deps = runDeps(db.pool, { ...commerce, create });
    await runDue({ ...deps, retryBackoff: () => 3_600_000 });
    await expect(open(of, { amount: '20.00' })).rejects.toMatchObject({
      reason: ErrorReason.STATE_FORBIDS,
      message: expect.stringContaining('unknown outcome'),
    });
    await requestProcessing(db.pool, of);
    await runAll();
    expect((await reload(db.pool, of)).refunds).toMatchObject([{ money: { value: '20.00' } }]);
  });

  test('is accepted after the provider has rejected the refund', async () => {
    const of = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    const commerce = createEmbeddedCommerce(db.pool);
    const refusing = creating(commerce, 'refund', () =>
      Promise.reject(new CommerceFailure('final', 'card closed')),
    );
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, refusing));
    const { id } = await open(of);
    await end(of, id, InstantRefundState.RETURNED);
    await requestProcessing(db.pool, of);
    await runAll();
    expect((await triggersOf(db.pool, of)).at(-1)).toBe('return.closed');
    const { orders, refunds } = await commerce.ordersOf(of.id);
    expect({ orders, refunds }).toMatchObject({ orders: [{ calls: 1 }], refunds: [] });
  });

  test.each(['0', '0.00', '-1', '1.001', 'x', ''])('rejects the amount "%s"', async (amount) => {
    const of = await submitted();
    await expect(open(of, { amount })).rejects.toMatchObject({ field: 'amount' });
  });
});

describe('the end of an instant refund', () => {
  test('may be repeated with the same result, but not with another', async () => {
    const of = await submitted();
    const { id } = await open(of);
    await end(of, id, InstantRefundState.RETURNED);
    const again = await end(of, id, InstantRefundState.RETURNED);
    expect(again.state).toBe(InstantRefundState.RETURNED);
    await expect(end(of, id, InstantRefundState.CHARGED)).rejects.toMatchObject({
      reason: ErrorReason.STATE_FORBIDS,
    });
  });

  test.each([InstantRefundState.UNSPECIFIED, InstantRefundState.OPEN])(
    'rejects %s as a result',
    async (result) => {
      const of = await submitted();
      const { id } = await open(of);
      await expect(end(of, id, result)).rejects.toMatchObject({ field: 'result' });
    },
  );

  test.each([
    { result: InstantRefundState.RETURNED, refunded: ['12.00'] },
    { result: InstantRefundState.CHARGE_FAILED, refunded: ['12.00'] },
    { result: InstantRefundState.CHARGED, refunded: ['20.00'] },
  ])('processing refunds what it has not paid: $refunded after $result', async (one) => {
    const of = await submitted();
    const { id } = await open(of);
    await end(of, id, one.result);
    await requestProcessing(db.pool, of);
    await runAll();
    const { refunds } = await createEmbeddedCommerce(db.pool).ordersOf(of.id);
    expect(refunds.map((refund) => refund.amount)).toEqual(one.refunded);
  });
});

const { OPEN, RETURNED, CHARGED, CHARGE_FAILED } = InstantRefundState;

/** A return of two lines. The shopper got 8.00 before the goods came. */
async function paidEarly(result: InstantRefundState): Promise<Return> {
  const shopId = await newShop(db.pool);
  const of = await newReturn(db.pool, shopId, { lines: [newLine(), newLine()] });
  const idempotencyKey = randomUUID();
  const request = { shopId, actor, returnId: of.id, idempotencyKey, amount: '8.00' };
  const credit = await openInstantRefund(db.pool, create(OpenInstantRefundRequestSchema, request));
  if (result === OPEN) return of;
  const settlement = { shopId, actor, creditId: credit.id, result };
  await settleInstantRefund(db.pool, create(SettleInstantRefundRequestSchema, settlement));
  return of;
}

function cancel({ shopId, id: returnId }: Return): Promise<Return> {
  return cancelReturn(
    storeOf(db.pool),
    create(CancelReturnRequestSchema, { shopId, actor, returnId }),
  );
}

function edit(of: Return, change: { remove?: boolean; quantity?: number }): Promise<Return> {
  const { shopId, id: returnId, revision: expectedRevision } = of;
  const changes = of.lineItems.slice(0, 1).map(({ lineItemId }) => ({ lineItemId, ...change }));
  const request = { shopId, actor, returnId, expectedRevision, changes };
  return editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
}

async function expired(of: Return): Promise<number> {
  const { shopId, id: returnId } = of;
  const createdAt = timestampFromDate(new Date(Date.now() - 30 * 86_400_000));
  const idempotencyKey = randomUUID();
  const label = { shopId, actor, idempotencyKey, returnId, carrier: 'X', createdAt };
  await recordLabel(storeOf(db.pool), create(RecordLabelRequestSchema, label));
  return sweepExpired(changeDeps(db.pool), { shopId });
}

const instantRefundKept = {
  code: Code.FailedPrecondition,
  reason: ErrorReason.STATE_FORBIDS,
  message: expect.stringContaining('instant refund'),
};

describe.each([{ result: RETURNED }, { result: CHARGE_FAILED }])(
  'a return whose instant refund the shopper keeps ($result)',
  ({ result }) => {
    test('cannot be cancelled, lose a line or expire, because its lines are paid', async () => {
      const of = await paidEarly(result);
      await expect(cancel(of)).rejects.toMatchObject(instantRefundKept);
      await expect(edit(of, { remove: true })).rejects.toMatchObject(instantRefundKept);
      expect(await reload(db.pool, of)).toEqual(of);
      expect(await expired(of)).toBe(0);
      expect((await reload(db.pool, of)).state).toBe(ReturnState.OPEN);
    });

    test('can be edited otherwise, and processing refunds the rest and closes it', async () => {
      const of = await paidEarly(result);
      expect((await edit(of, { quantity: 1 })).lineItems[0]?.quantity).toBe(1);
      await requestProcessing(db.pool, of);
      await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
      expect(await reload(db.pool, of)).toMatchObject({
        state: ReturnState.CLOSED,
        refunds: [{ money: { value: '32.00' } }],
      });
    });
  },
);

describe.each([{ result: OPEN }, { result: CHARGED }])(
  'a return whose instant refund may come back or did ($result)',
  ({ result }) => {
    test('can lose a line and be cancelled like any other', async () => {
      const of = await paidEarly(result);
      expect((await edit(of, { remove: true })).lineItems).toHaveLength(1);
      expect((await cancel(of)).state).toBe(ReturnState.CANCELLED);
    });
  },
);

test('a return whose instant refund was charged back expires like any other', async () => {
  expect(await expired(await paidEarly(CHARGED))).toBe(1);
});
