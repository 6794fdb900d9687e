import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
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
const submit = (shopId: bigint, line: Line) => newReturn(db.pool, shopId, { order, lines: [line] });

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
    const changes = one.lineItems.map(({ lineItemId }) => ({ lineItemId, quantity: 2 }));
    const request = { shopId, actor, returnId: one.id, expectedRevision: one.revision, changes };
    const edit = editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
    await expect(edit).rejects.toMatchObject(tooMany);
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
    await close(await submit(shopId, part));
    await submit(shopId, part);
    const line = { ...newLine(), ...full };
    await cancel(await submit(shopId, line));
    await submit(shopId, line);
  });
});
