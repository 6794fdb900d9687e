import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
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
  newLine,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { cancelReturn } from '../cancel.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { editReturn } from '../edit/edit.ts';
import { sweepExpired } from '../expiry.ts';
import { recordLabel } from '../labels/labels.ts';
import { openInstantRefund, settleInstantRefund } from './instant-refunds.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

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
