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
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  creating,
  exchangeWith,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import { cancelReturn } from '../cancel.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../commerce/embedded.ts';
import { CommerceFailure } from '../commerce/provider.ts';
import { editReturn } from '../edit/edit.ts';
import { sweepExpired } from '../expiry.ts';
import { endInstantRefund, insertInstantRefund } from '../instant-refunds/instant-refunds-store.ts';
import { recordLabel } from '../labels/labels.ts';

// A run that failed after it had placed the exchange order, so money has moved.

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
const forbidden = (why: string) => ({
  code: Code.FailedPrecondition,
  message: expect.stringContaining(why),
});

async function failAfterExchange(of: Return): Promise<Return> {
  const refusing = creating(commerce, 'refund', () =>
    Promise.reject(new CommerceFailure('final', 'card closed')),
  );
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, refusing));
  return reload(db.pool, of);
}

function edit(of: Return, more: MessageInitShape<typeof EditReturnRequestSchema> = {}) {
  const { shopId, id: returnId, revision: expectedRevision } = of;
  const changes = of.lineItems.map(({ lineItemId }) => ({ lineItemId, quantity: 7 }));
  const request = { shopId, actor, returnId, expectedRevision, changes, ...more };
  return editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
}

function cancel({ shopId, id: returnId }: Return) {
  return cancelReturn(
    storeOf(db.pool),
    create(CancelReturnRequestSchema, { shopId, actor, returnId }),
  );
}

async function addOverdueLabel({ shopId, id: returnId }: Return): Promise<void> {
  const createdAt = timestampFromDate(new Date(Date.now() - 30 * 86_400_000));
  const idempotencyKey = randomUUID();
  const label = { shopId, actor, idempotencyKey, returnId, carrier: 'X', createdAt };
  await recordLabel(storeOf(db.pool), create(RecordLabelRequestSchema, label));
}

describe('a return of which processing fulfilled a part', () => {
  test('cannot be edited', async () => {
    await expect(edit(failed)).rejects.toMatchObject(forbidden('was already paid'));
    expect(await reload(db.pool, failed)).toEqual(failed);
  });

  test('is rejected first for another revision', async () => {
    const stale = edit(failed, { expectedRevision: failed.revision + 1n });
    await expect(stale).rejects.toMatchObject({ code: Code.Aborted });
  });

  test('does not expire, because another run must complete it', async () => {
    const { shopId } = failed;
    await addOverdueLabel(failed);
    expect(await sweepExpired(changeDeps(db.pool), { shopId })).toBe(0);
    expect((await reload(db.pool, failed)).state).toBe(ReturnState.OPEN);
  });

  test('is closed by another run, which does the rest', async () => {
    await requestProcessing(db.pool, failed);
    await runDue(runDeps(db.pool, commerce));
    expect(await reload(db.pool, failed)).toMatchObject({
      state: ReturnState.CLOSED,
      exchangeOrders: [{}],
      refunds: [{}],
    });
  });
});

describe('a return with a request of unknown outcome at the provider', () => {
  let unanswered: Return;
  beforeEach(async () => {
    unanswered = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, unanswered);
    // The refund takes effect, its response is lost, and no attempt is left.
    const silenced = creating(commerce, 'refund', async (request, signal) => {
      await commerce.create(request, signal);
      throw new CommerceFailure('passing', 'timed out');
    });
    const deps = runDeps(db.pool, silenced);
    await runDue({ ...deps, retryBackoff: () => 3_600_000 });
    unanswered = await reload(db.pool, unanswered);
    expect(await triggersOf(db.pool, unanswered)).toEqual(['return.processing.failed']);
  });

  test('cannot be edited or cancelled, and does not expire', async () => {
    for (const refused of [edit(unanswered), cancel(unanswered)]) {
      await expect(refused).rejects.toMatchObject(forbidden('unknown outcome'));
      await expect(refused).rejects.toMatchObject(forbidden('`commerce settle`'));
    }
    await addOverdueLabel(unanswered);
    const { shopId } = unanswered;
    expect(await sweepExpired(changeDeps(db.pool), { shopId })).toBe(0);
  });

  test('is closed by another run, with one refund', async () => {
    await requestProcessing(db.pool, unanswered);
    await runDue(runDeps(db.pool, commerce));
    expect(await reload(db.pool, unanswered)).toMatchObject({
      state: ReturnState.CLOSED,
      refunds: [{ money: { value: '20.00' } }],
    });
  });

  test('does not close when a requested step is not planned any more', async () => {
    const { shopId, id: returnId } = unanswered;
    // Such rows exist, because earlier releases accepted instant refunds of such a return.
    const paid = { amount: '20.00', currency: 'GBP', chargeReference: '' };
    const id = await insertInstantRefund(db.pool, { shopId, returnId, ...paid });
    await endInstantRefund(db.pool, { shopId, id, state: 'returned' });
    await requestProcessing(db.pool, unanswered);
    await runDue(runDeps(db.pool, commerce));
    const failures = ['return.processing.failed', 'return.processing.failed'];
    expect(await triggersOf(db.pool, unanswered)).toEqual(failures);
    const after = await reload(db.pool, unanswered);
    expect(after).toMatchObject({ state: ReturnState.OPEN, processing: false });
    // Another request of a refund that had not taken effect would pay twice.
    expect((await commerce.ordersOf(returnId)).refunds).toMatchObject([{ calls: 1 }]);
  });

  test('can be edited again after the provider has rejected', async () => {
    const other = await newReturn(db.pool, await newShop(db.pool));
    await requestProcessing(db.pool, other);
    const kinds = ['passing', 'final'] as const;
    let calls = 0;
    const refusing = creating(commerce, 'refund', () => {
      calls += 1;
      return Promise.reject(new CommerceFailure(kinds[calls - 1] ?? 'final', 'no'));
    });
    await runDue(runDeps(db.pool, refusing));
    expect(calls).toBe(2);
    expect((await cancel(other)).state).toBe(ReturnState.CANCELLED);
  });
});

test('a different amount than requested stops processing, and the return does not change', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool));
  await requestProcessing(db.pool, of);
  const wrong = creating(commerce, 'refund', (request, signal) =>
    commerce.create({ ...request, amount: '19.00' }, signal),
  );
  await runDue(runDeps(db.pool, wrong));
  expect(await triggersOf(db.pool, of)).toEqual(['return.processing.failed']);
  const after = await reload(db.pool, of);
  expect(after).toMatchObject({ state: ReturnState.OPEN, processing: false, refunds: [] });
  await expect(cancel(after)).rejects.toMatchObject(forbidden('unknown outcome'));
  // The provider always returns the same for this key, so a later run does not close with a wrong refund either.
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  expect((await reload(db.pool, of)).state).toBe(ReturnState.OPEN);
});

test('a return whose run failed without an effect can be edited and cancelled', async () => {
  const of = await newReturn(db.pool, await newShop(db.pool));
  await commerce.failNext({ returnId: of.id, kind: 'final', times: 1 });
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, commerce));
  await edit(await reload(db.pool, of));
  expect((await cancel(of)).state).toBe(ReturnState.CANCELLED);
});
