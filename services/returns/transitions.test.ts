import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { LabelStatus, type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  CancelReturnRequestSchema,
  EditReturnRequestSchema,
  FlagReturnRequestSchema,
  RecordLabelRequestSchema,
  UnflagReturnRequestSchema,
  UpdateLabelRequestSchema,
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
  triggersOf,
} from '../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../test/kit/services/return-stores.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { editReturn } from './edit/edit.ts';
import { recordLabel, updateLabel } from './labels/labels.ts';
import { sweepExpired } from './retention/expiry.ts';
import { isOpenOrInReview, TRANSITIONS } from './return.ts';
import { cancelReturn } from './review/cancel.ts';
import { flagReturn, unflagReturn } from './review/flag.ts';

// Compares the table of transitions with the service: every call, in any order, on a real database.
let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const of = (one: Return) => ({ shopId: one.shopId, actor, returnId: one.id });
const OVERDUE_MS = 29 * 86_400_000;

interface Subject {
  readonly submitted: Return;
  readonly labelId: bigint;
}

const CALLS = {
  flag: ({ submitted }: Subject) =>
    flagReturn(
      storeOf(db.pool),
      create(FlagReturnRequestSchema, { ...of(submitted), reasons: ['odd'] }),
    ),
  unflag: ({ submitted }: Subject) =>
    unflagReturn(storeOf(db.pool), create(UnflagReturnRequestSchema, of(submitted))),
  cancel: ({ submitted }: Subject) =>
    cancelReturn(storeOf(db.pool), create(CancelReturnRequestSchema, of(submitted))),
  close: async ({ submitted }: Subject) => {
    await requestProcessing(db.pool, submitted);
    await runDue(runDeps(db.pool, createEmbeddedCommerce(db.pool)));
  },
  expire: ({ submitted }: Subject) =>
    sweepExpired(changeDeps(db.pool), { shopId: submitted.shopId }),
  reopen: ({ submitted, labelId }: Subject) => {
    const status = LabelStatus.IN_TRANSIT;
    const update = { shopId: submitted.shopId, actor, labelId, status };
    return updateLabel(changeDeps(db.pool), create(UpdateLabelRequestSchema, update));
  },
};
type Call = keyof typeof CALLS;
const NAMES = Object.keys(CALLS) as Call[];

async function newSubject(): Promise<Subject> {
  const submitted = await newReturn(db.pool, await newShop(db.pool));
  const label = {
    ...of(submitted),
    idempotencyKey: randomUUID(),
    carrier: 'Royal Mail',
    createdAt: timestampFromDate(new Date(Date.now() - OVERDUE_MS)),
  };
  const { id: labelId } = await recordLabel(
    storeOf(db.pool),
    create(RecordLabelRequestSchema, label),
  );
  return { submitted, labelId };
}

/** The state after a call: that of its transition if the table allows the call, else the state before. */
function next(name: Call, from: ReturnState, o: { moved: boolean; wasFlagged: boolean }) {
  const allowed: readonly ReturnState[] = TRANSITIONS[name].from;
  if (!allowed.includes(from)) return from;
  // A return whose parcel has moved does not expire again. Only the first report that the parcel moves opens the return
  // again.
  if ((name === 'expire' || name === 'reopen') && o.moved) return from;
  if (name === 'reopen' && o.wasFlagged) return TRANSITIONS.reopenInReview.to;
  return TRANSITIONS[name].to;
}

describe('calls in any order', () => {
  test('follow the table of transitions, and publish each change', async () => {
    const anyCalls = fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(anyCalls, async (names) => {
        const subject = await newSubject();
        const { submitted } = subject;
        let state: ReturnState = ReturnState.OPEN;
        let history = { moved: false, wasFlagged: false };
        for (const name of names) {
          const before = await triggersOf(db.pool, submitted);
          // A call that the table does not allow is rejected, or changes nothing.
          await Promise.resolve(CALLS[name](subject)).catch(() => undefined);
          const expected = next(name, state, history);
          const now = await reload(db.pool, submitted);
          expect([names, name, now.state]).toEqual([names, name, expected]);
          expect(now.processing).toBe(false);
          const published = (await triggersOf(db.pool, submitted)).slice(before.length);
          const trigger = expected === ReturnState.CLOSED ? 'return.closed' : 'return.updated';
          if (expected !== state) expect(published).toContain(trigger);
          if (name === 'reopen') history = { ...history, moved: true };
          if (name === 'expire' && expected !== state) {
            history = { ...history, wasFlagged: state === ReturnState.REVIEW };
          }
          state = expected;
          await expectLinesLive(submitted, isOpenOrInReview(state));
        }
      }),
      { numRuns: 25 },
    );
  });

  async function expectLinesLive(one: Return, live: boolean): Promise<void> {
    const { rows } = await db.pool.query<{ live: boolean }>(
      'select distinct live from return_lines where shop_id = $1 and return_id = $2',
      [one.shopId, one.id],
    );
    expect(rows).toEqual([{ live }]);
  }
});

describe('an expired return whose parcel moves', () => {
  const order = { providerOrderId: 77n, name: '#77' };

  async function expired(more: Parameters<typeof newReturn>[2] = {}, shop?: bigint) {
    const shopId = shop ?? (await newShop(db.pool));
    const submitted = await newReturn(db.pool, shopId, { order, ...more });
    const label = {
      ...of(submitted),
      idempotencyKey: randomUUID(),
      carrier: 'Royal Mail',
      createdAt: timestampFromDate(new Date(Date.now() - OVERDUE_MS)),
    };
    const { id: labelId } = await recordLabel(
      storeOf(db.pool),
      create(RecordLabelRequestSchema, label),
    );
    await sweepExpired(changeDeps(db.pool), { shopId });
    expect((await reload(db.pool, submitted)).state).toBe(ReturnState.EXPIRED);
    return { submitted, labelId };
  }

  test('stays expired while another return has one of its lines', async () => {
    const line = newLine();
    const subject = await expired({ lines: [line] });
    const { submitted } = subject;
    await newReturn(db.pool, submitted.shopId, { order, lines: [line] });
    await CALLS.reopen(subject);
    const now = await reload(db.pool, submitted);
    expect(now).toMatchObject({
      state: ReturnState.EXPIRED,
      labels: [{ status: LabelStatus.IN_TRANSIT }],
    });
    expect(await triggersOf(db.pool, submitted)).toContain('label.updated');
  });

  test('opens with the units that other returns have left, and no others', async () => {
    const line = { ...newLine(), quantity: 2, orderedQuantity: 3 };
    const lines = [line];
    const fits = await expired({ lines });
    const { shopId } = fits.submitted;
    await newReturn(db.pool, shopId, { order, lines: [{ ...line, quantity: 1 }] });
    await CALLS.reopen(fits);
    expect((await reload(db.pool, fits.submitted)).state).toBe(ReturnState.OPEN);
    const rest = { ...newLine(), quantity: 2, orderedQuantity: 3 };
    const subject = await expired({ lines: [rest] }, shopId);
    await newReturn(db.pool, shopId, { order, lines: [rest] });
    await CALLS.reopen(subject);
    expect((await reload(db.pool, subject.submitted)).state).toBe(ReturnState.EXPIRED);
  });

  test('stays expired when other returns have the shipping that the order paid', async () => {
    const shipped = (shop: string) => ({ lines: [{ ...newLine(), refundShipping: { shop } }] });
    const first = await expired({ orderShipping: { shop: '6' }, ...shipped('4') });
    const { shopId } = first.submitted;
    const second = await expired(shipped('2'), shopId);
    await newReturn(db.pool, shopId, { order, ...shipped('2.01') });
    await CALLS.reopen(first);
    expect((await reload(db.pool, first.submitted)).state).toBe(ReturnState.EXPIRED);
    await CALLS.reopen(second);
    expect((await reload(db.pool, second.submitted)).state).toBe(ReturnState.OPEN);
  });

  test('only one of two that share a line opens at the same time', async () => {
    const line = newLine();
    const first = await expired({ lines: [line] });
    const second = await expired({ lines: [line] }, first.submitted.shopId);
    await Promise.all([CALLS.reopen(first), CALLS.reopen(second)]);
    const states = [first, second].map(
      async ({ submitted }) => (await reload(db.pool, submitted)).state,
    );
    expect((await Promise.all(states)).sort()).toEqual([ReturnState.OPEN, ReturnState.EXPIRED]);
  });
});

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
