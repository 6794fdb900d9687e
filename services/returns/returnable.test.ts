import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { SubmissionPart } from '../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { raced } from '../../test/kit/postgres/raced.ts';
import {
  actor,
  newLine,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
} from '../../test/kit/services/processing.ts';
import { storeOf } from '../../test/kit/services/return-stores.ts';
import { cancelReturn } from './cancel.ts';
import { createEmbeddedCommerce } from './commerce/embedded.ts';
import { editReturn } from './edit/edit.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const order = { providerOrderId: 501n, name: '#501' };
type Line = ReturnType<typeof newLine> & {
  readonly orderedQuantity?: number;
  readonly refundItem?: { readonly shop: string };
};
const submit = (shopId: bigint, line: Line, more: SubmissionPart = {}) =>
  newReturn(db.pool, shopId, { order, lines: [line], ...more });

async function close(submitted: Return): Promise<void> {
  await requestProcessing(db.pool, submitted);
  await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
  expect((await reload(db.pool, submitted)).state).toBe(ReturnState.CLOSED);
}

function cancel({ shopId, id: returnId }: Return) {
  return cancelReturn(
    storeOf(db.pool),
    create(CancelReturnRequestSchema, { shopId, actor, returnId }),
  );
}

function edit({ shopId, id: returnId, revision, lineItems }: Return, quantity: number) {
  const changes = lineItems.map(({ lineItemId }) => ({ lineItemId, quantity }));
  const request = { shopId, actor, returnId, expectedRevision: revision, changes };
  return editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
}

/** The lock of the order. */
const lockOf = (shopId: bigint) => ({
  text: 'select from orders where shop_id = $1 and provider_order_id = $2 for update',
  values: [shopId, order.providerOrderId],
});

const refused = (reason: ErrorReason) => ({
  code: Code.FailedPrecondition,
  reason,
  field: 'lines[0]',
});
const tooMany = refused(ErrorReason.ORDERED_QUANTITY_EXCEEDED);

describe('a line with an ordered quantity', () => {
  const line = (quantity: number): Line => ({ ...newLine(), quantity, orderedQuantity: 3 });

  test('may be returned in as many units as were ordered, over all returns', async () => {
    const shopId = await newShop(db.pool);
    const two = line(2);
    await close(await submit(shopId, two));
    await expect(submit(shopId, two)).rejects.toMatchObject(tooMany);
    await close(await submit(shopId, { ...two, quantity: 1 }));
    await expect(submit(shopId, { ...two, quantity: 1 })).rejects.toMatchObject(tooMany);
  });

  test('may be in several open returns at once, up to the ordered units', async () => {
    const shopId = await newShop(db.pool);
    const one = line(1);
    const first = await submit(shopId, one);
    await submit(shopId, { ...one, quantity: 2 });
    await expect(submit(shopId, one)).rejects.toMatchObject(tooMany);
    await cancel(first);
    await submit(shopId, one);
    await expect(submit(shopId, one)).rejects.toMatchObject(tooMany);
  });

  test('is known to a return that does not say how many units were ordered', async () => {
    const shopId = await newShop(db.pool);
    const { orderedQuantity: _, ...unknown } = line(1);
    const first = await submit(shopId, unknown);
    await submit(shopId, { ...unknown, orderedQuantity: 3 });
    await edit(first, 2);
    await expect(submit(shopId, unknown)).rejects.toMatchObject(tooMany);
  });

  test('has one return more when two submit its last unit at the same time', async () => {
    const shopId = await newShop(db.pool);
    const one = line(1);
    await submit(shopId, { ...one, quantity: 2 });
    const last = async () => (await submit(shopId, one)).lineItems[0]?.quantity;
    const results = await raced(db.pool, lockOf(shopId), [last, last]);
    expect(results).toEqual([1, expect.stringContaining('3 units were ordered and 3 of them are')]);
  });

  test('limits two edits at the same time', async () => {
    const shopId = await newShop(db.pool);
    const one = line(1);
    const pair = [await submit(shopId, one), await submit(shopId, one)];
    const calls = pair.map((of) => async () => (await edit(of, 2)).lineItems[0]?.quantity);
    const results = await raced(db.pool, lockOf(shopId), calls);
    expect(results).toEqual([2, expect.stringContaining('3 units were ordered and 2 of them are')]);
  });

  test('is rejected at once with more units than were ordered', async () => {
    await expect(submit(await newShop(db.pool), line(4))).rejects.toMatchObject(tooMany);
  });

  test('does not count cancelled returns and other shops', async () => {
    const shopId = await newShop(db.pool);
    const three = line(3);
    await submit(await newShop(db.pool), three);
    await cancel(await submit(shopId, three));
    await submit(shopId, three);
  });

  test('cannot be edited to more units than were ordered', async () => {
    const shopId = await newShop(db.pool);
    const two = line(2);
    await close(await submit(shopId, two));
    const one = await submit(shopId, { ...two, quantity: 1 });
    await expect(edit(one, 2)).rejects.toMatchObject(tooMany);
    expect((await reload(db.pool, one)).revision).toBe(one.revision);
  });

  test('is never exceeded by parallel submissions', async () => {
    const shopId = await newShop(db.pool);
    const one = line(1);
    await close(await submit(shopId, { ...one, quantity: 2 }));
    const calls = await Promise.allSettled(Array.from({ length: 6 }, () => submit(shopId, one)));
    expect(calls.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });
});

describe('a line without an ordered quantity', () => {
  test('is in one open return at a time', async () => {
    const shopId = await newShop(db.pool);
    const line = { ...newLine(), quantity: 1 };
    const first = await submit(shopId, line);
    const inLiveReturn = refused(ErrorReason.LINE_IN_LIVE_RETURN);
    await expect(submit(shopId, line)).rejects.toMatchObject(inLiveReturn);
    await cancel(first);
    const last = async () => (await submit(shopId, line)).lineItems[0]?.quantity;
    const results = await raced(db.pool, lockOf(shopId), [last, last]);
    expect(results).toEqual([1, expect.stringContaining('set ordered_quantity')]);
  });

  const full = { refundItem: { shop: '20.00' } };

  test('is rejected after a closed return refunded it in full', async () => {
    const shopId = await newShop(db.pool);
    const line = { ...newLine(), ...full };
    await close(await submit(shopId, line));
    await expect(submit(shopId, line)).rejects.toMatchObject(
      refused(ErrorReason.LINE_ALREADY_REFUNDED),
    );
    await submit(shopId, { ...line, quantity: 1, orderedQuantity: 3 });
  });

  test('is accepted after a partial refund, or a cancelled return', async () => {
    const shopId = await newShop(db.pool);
    const part = { ...newLine(), refundItem: { shop: '19.99' } };
    const fee = { amounts: { handlingFee: { shop: '0.01' } } };
    await close(await submit(shopId, part, fee));
    await submit(shopId, part, fee);
    const line = { ...newLine(), ...full };
    await cancel(await submit(shopId, line));
    await submit(shopId, line);
  });
});
