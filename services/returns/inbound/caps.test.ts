import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { orderOf, reportOrder, reportRefund } from '../../../test/kit/commerce/inbound.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  effectKey,
  newLine,
  newReturn,
  newShop,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
} from '../../../test/kit/services/processing.ts';
import { storeOf } from '../../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import { CommerceFailure } from '../../commerce/provider.ts';
import { COMMERCE_LINES_MAX } from '../../contract/limits.ts';
import { editReturn } from '../edit/edit.ts';
import { cancelReturn } from '../review/cancel.ts';

// What a provider says of its orders limits the returns of their lines.

let db: TestDatabase;
let shopId: bigint;
let line: ReturnType<typeof newLine> & { readonly orderedQuantity?: number };
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
  line = newLine();
});

const order = { providerOrderId: 501n, name: '#501' };
const about = () => ({ shopId, providerOrderId: 501n, line: line.providerLineItemId });
const submit = (quantity: number, more = {}) =>
  newReturn(db.pool, shopId, { order, lines: [{ ...line, quantity, ...more }] });
const at = (minute: number) => new Date(Date.UTC(2026, 10, 20, 10, minute));

const refused = (reason: ErrorReason, field = 'lines[0]') => ({
  code: Code.FailedPrecondition,
  reason,
  field,
});
const tooMany = refused(ErrorReason.ORDERED_QUANTITY_EXCEEDED);

const cancel = ({ id: returnId }: Return) =>
  cancelReturn(storeOf(db.pool), create(CancelReturnRequestSchema, { shopId, actor, returnId }));

async function close(of: Return): Promise<void> {
  await requestProcessing(db.pool, of);
  await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
}

describe('a refund that the provider made although it rejected the request', () => {
  test('counts when its return is cancelled', async () => {
    await reportOrder(db.pool, about(), { quantity: 1 });
    const of = await submit(1);
    await requestProcessing(db.pool, of);
    const declined = () => Promise.reject(new CommerceFailure('final', 'declined'));
    await runDue(runDeps(db.pool, { ...createEmbeddedCommerce(db.pool), create: declined }));
    const key = await effectKey(db.pool, of, 'refund');
    await reportRefund(db.pool, about(), { quantity: 1, key });
    await cancel(of);
    await expect(submit(1)).rejects.toMatchObject(tooMany);
  });
});

describe('the ordered quantity that the provider says', () => {
  test('caps a return that has none, or a larger one', async () => {
    await reportOrder(db.pool, about(), { quantity: 2 });
    await expect(submit(3)).rejects.toMatchObject(tooMany);
    await expect(submit(3, { orderedQuantity: 5 })).rejects.toMatchObject(tooMany);
    await submit(2, { orderedQuantity: 5 });
  });

  test('does not raise a smaller one of the caller', async () => {
    await reportOrder(db.pool, about(), { quantity: 5 });
    await expect(submit(3, { orderedQuantity: 2 })).rejects.toMatchObject(tooMany);
  });

  test('counts all returns that were neither cancelled nor expired', async () => {
    await reportOrder(db.pool, about(), { quantity: 3 });
    await cancel(await submit(3));
    await close(await submit(2));
    await expect(submit(2)).rejects.toMatchObject(tooMany);
    await submit(1);
  });

  test('counts what was refunded at the provider, and the message has the numbers', async () => {
    await reportOrder(db.pool, about(), { quantity: 4 });
    await reportRefund(db.pool, about(), { quantity: 1 });
    await close(await submit(1));
    await expect(submit(3)).rejects.toThrow(
      `order line ${line.providerLineItemId}: 4 units were ordered and 1 of them are in other returns, and 1 were refunded at the commerce provider, so 3 cannot be returned`,
    );
    await submit(2);
  });

  test('limits an edit', async () => {
    await reportOrder(db.pool, about(), { quantity: 2 });
    const of = await submit(1);
    const changes = of.lineItems.map(({ lineItemId }) => ({ lineItemId, quantity: 3 }));
    const request = { shopId, actor, returnId: of.id, expectedRevision: of.revision, changes };
    const edit = editReturn(storeOf(db.pool), create(EditReturnRequestSchema, request));
    await expect(edit).rejects.toMatchObject(tooMany);
  });

  test('belongs to one shop', async () => {
    await reportOrder(db.pool, { ...about(), shopId: await newShop(db.pool) }, { quantity: 1 });
    await submit(3);
  });

  test('is 0 for a line that the order does not have any more', async () => {
    await reportOrder(db.pool, about(), { quantity: 2, updatedAt: at(1) });
    await reportOrder(db.pool, about(), { quantity: 2, updatedAt: at(2), lines: [] });
    await expect(submit(1)).rejects.toMatchObject(tooMany);
  });
});

describe('a refund at the provider of a line whose ordered quantity is not known', () => {
  const alreadyRefunded = refused(ErrorReason.LINE_ALREADY_REFUNDED);

  test('is an obstacle until the quantity is known', async () => {
    await reportRefund(db.pool, about(), { quantity: 1 });
    await expect(submit(1)).rejects.toMatchObject(alreadyRefunded);
    await submit(1, { orderedQuantity: 2 });
  });

  test('is none when it refunded no units, or another line', async () => {
    await reportRefund(db.pool, about(), { quantity: 0 });
    await reportRefund(db.pool, { ...about(), line: 77n }, { quantity: 1, providerRefundId: '2' });
    await submit(1);
  });
});

describe('an order that the provider cancelled', () => {
  const cancelled = refused(ErrorReason.STATE_FORBIDS, 'order');

  test('takes no new returns, and has an entry in the timeline of its live returns, once', async () => {
    const live = await submit(1);
    const ended = await newReturn(db.pool, shopId, { order, lines: [newLine()] });
    await cancel(ended);
    const news = { quantity: 2, cancelledAt: at(0), updatedAt: at(1) };
    expect(await reportOrder(db.pool, about(), news)).toBe(true);
    await reportOrder(db.pool, about(), news);
    await reportOrder(db.pool, about(), { ...news, updatedAt: at(2) });
    const lines = [newLine()];
    await expect(newReturn(db.pool, shopId, { order, lines })).rejects.toMatchObject(cancelled);
    const kinds = async (of: Return) => (await timelineOf(db.pool, of)).map(({ kind }) => kind);
    expect(await kinds(live)).toEqual(['return.submitted', 'order.cancelled_at_provider']);
    expect(await kinds(ended)).not.toContain('order.cancelled_at_provider');
  });

  test('stays cancelled when an older state arrives later, or another one of the same time', async () => {
    await reportOrder(db.pool, about(), { quantity: 2, cancelledAt: at(5), updatedAt: at(5) });
    const older = { quantity: 9, updatedAt: at(4) };
    expect(await reportOrder(db.pool, about(), older)).toBe(false);
    await reportOrder(db.pool, about(), { quantity: 2, updatedAt: at(5) });
    await expect(submit(1)).rejects.toMatchObject(cancelled);
  });

  test('takes returns when a newer state is not cancelled', async () => {
    await reportOrder(db.pool, about(), { quantity: 2, cancelledAt: at(5), updatedAt: at(5) });
    await reportOrder(db.pool, about(), { quantity: 2, updatedAt: at(6) });
    await submit(1);
  });
});

describe('news', () => {
  test('that come in any order and at once end in the newest state', async () => {
    const minutes = [3, 1, 5, 2, 4, 5, 1];
    await Promise.all(
      minutes.map((minute) =>
        reportOrder(db.pool, about(), { quantity: minute, updatedAt: at(minute) }),
      ),
    );
    await expect(submit(6)).rejects.toThrow('5 units were ordered');
    await submit(5);
  });

  test('of one refund count once, also at once, and are in the timeline once', async () => {
    const of = await submit(1, { orderedQuantity: 3 });
    const reports = Array.from({ length: 5 }, () =>
      reportRefund(db.pool, orderOf(of), { quantity: 1 }),
    );
    expect((await Promise.all(reports)).filter(Boolean)).toHaveLength(1);
    expect(await timelineOf(db.pool, of)).toMatchObject([
      { kind: 'return.submitted' },
      {
        kind: 'order.refunded_at_provider',
        facts: { amount: '5.00', currency: 'GBP', provider_id: 'R-1' },
      },
    ]);
    await cancel(of);
    await expect(submit(3, { orderedQuantity: 3 })).rejects.toMatchObject(tooMany);
    await submit(2, { orderedQuantity: 3 });
  });

  test('and submissions at once never return more than was ordered', async () => {
    await reportOrder(db.pool, about(), { quantity: 1 });
    await Promise.allSettled([
      submit(1),
      reportRefund(db.pool, about(), { quantity: 1 }),
      submit(1),
    ]);
    const { rows } = await db.pool.query<{ id: bigint }>(
      'select id from returns where shop_id = $1',
      [shopId],
    );
    // A return that was first learns of the refund.
    for (const { id } of rows) {
      const kinds = (await timelineOf(db.pool, { shopId, id })).map(({ kind }) => kind);
      expect(kinds).toContain('order.refunded_at_provider');
    }
    expect(rows.length).toBeLessThanOrEqual(1);
  });

  test('with too many lines are refused, and change nothing', async () => {
    const lines = Array.from({ length: COMMERCE_LINES_MAX + 1 }, (_, n) => ({
      providerLineItemId: BigInt(n + 1),
      quantity: 1,
      amount: '1.00',
    }));
    const field = { field: 'lines' };
    await expect(reportOrder(db.pool, about(), { quantity: 1, lines })).rejects.toMatchObject(
      field,
    );
    await expect(reportRefund(db.pool, about(), { quantity: 1, lines })).rejects.toMatchObject(
      field,
    );
    await submit(9);
  });
});
