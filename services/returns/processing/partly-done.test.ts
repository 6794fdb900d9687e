import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  RecordLabelRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { cancelReturn } from '../cancel.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../commerce/embedded.ts';
import { CommerceFailure } from '../commerce/provider.ts';
import { editReturn } from '../edit/edit.ts';
import { sweepExpired } from '../expiry.ts';
import { recordLabel } from '../labels/labels.ts';
import {
  actor,
  ask,
  exchangeWith,
  newReturn,
  newShop,
  reload,
  runDeps,
  runDue,
  silent,
} from './testing.ts';

// A run that failed for good after it had placed the exchange order: money has moved.

let db: TestDatabase;
let commerce: EmbeddedCommerce;
let failed: Return;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());
beforeEach(async () => {
  failed = await failAfterExchange(await newReturn(db.pool, await newShop(db.pool), exchange));
});

const exchange = exchangeWith('refund');
const moved = {
  code: Code.FailedPrecondition,
  message: expect.stringContaining('money has moved'),
};

async function failAfterExchange(of: Return): Promise<Return> {
  const createRefund = () => Promise.reject(new CommerceFailure('final', 'card closed'));
  await ask(db.pool, of);
  await runDue(runDeps(db.pool, { ...commerce, createRefund }));
  return reload(db.pool, of);
}

function edit(of: Return, more: MessageInitShape<typeof EditReturnRequestSchema> = {}) {
  const { shopId, id: returnId, revision: expectedRevision } = of;
  const changes = of.lineItems.map(({ lineItemId }) => ({ lineItemId, quantity: 7 }));
  const request = { shopId, actor, returnId, expectedRevision, changes, ...more };
  return editReturn(db.pool, create(EditReturnRequestSchema, request));
}

function cancel({ shopId, id: returnId }: Return) {
  return cancelReturn(db.pool, create(CancelReturnRequestSchema, { shopId, actor, returnId }));
}

describe('a return of which processing fulfilled a part', () => {
  test('is neither edited nor cancelled, and nothing of it changes', async () => {
    await expect(edit(failed)).rejects.toMatchObject(moved);
    await expect(cancel(failed)).rejects.toMatchObject(moved);
    expect(await reload(db.pool, failed)).toEqual(failed);
  });

  test('is still told first that it was read at another revision', async () => {
    const stale = edit(failed, { expectedRevision: failed.revision + 1n });
    await expect(stale).rejects.toMatchObject({ code: Code.Aborted });
  });

  test('does not expire: the rest of it is still owed', async () => {
    const { shopId, id: returnId } = failed;
    const createdAt = timestampFromDate(new Date(Date.now() - 30 * 86_400_000));
    const label = {
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      returnId,
      carrier: 'X',
      createdAt,
    };
    await recordLabel(db.pool, create(RecordLabelRequestSchema, label));
    expect(await sweepExpired(db.pool, { shopId, logger: silent })).toBe(0);
    expect((await reload(db.pool, failed)).state).toBe(ReturnState.OPEN);
  });

  test('is closed by processing it again, which does the rest', async () => {
    await ask(db.pool, failed);
    await runDue(runDeps(db.pool, commerce));
    expect(await reload(db.pool, failed)).toMatchObject({
      state: ReturnState.CLOSED,
      exchangeOrders: [{}],
      refunds: [{}],
    });
  });
});

test('a return whose run failed before it did anything is edited and cancelled as ever', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool));
  await commerce.failNext({ returnId: of.id, kind: 'final', times: 1 });
  await ask(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  await edit(await reload(db.pool, of));
  expect((await cancel(of)).state).toBe(ReturnState.CANCELLED);
});
