import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pino from 'pino';
import { LabelStatus, type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  LabelProvider,
  OpenInstantRefundRequestSchema,
  RecordArrivalRequestSchema,
  RecordLabelRequestSchema,
  RequestLabelRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import {
  actor,
  destinations,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  timelineOf,
  triggersOf,
} from '../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../test/kit/services/return-stores.ts';
import { until } from '../../test/kit/until.ts';
import { startExpiry, sweepExpired } from './expiry.ts';
import { openInstantRefund } from './instant-refunds/instant-refunds.ts';
import { requestLabel } from './labels/label-requests.ts';
import { recordLabel } from './labels/labels.ts';
import { recordArrival } from './logistics/arrivals.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

function addLabel(of: Return, o: { ageMs: number; status?: LabelStatus }) {
  return recordLabel(
    storeOf(db.pool),
    create(RecordLabelRequestSchema, {
      shopId: of.shopId,
      actor: { ...actor },
      idempotencyKey: randomUUID(),
      returnId: of.id,
      carrier: 'Royal Mail',
      createdAt: timestampFromDate(new Date(Date.now() - o.ageMs)),
      status: o.status ?? LabelStatus.NEW,
    }),
  );
}

async function returnWithLabel(
  ageMs: number,
  o: { expiryDays?: number; status?: LabelStatus } = {},
) {
  const { expiryDays = 28, status = LabelStatus.NEW } = o;
  const of = await newReturn(db.pool, await newShop(db.pool, { expiryDays }));
  await addLabel(of, { ageMs, status });
  return of;
}

/** The job logs an error for a return that it selected but could not expire. There must be none. */
async function stateAfterSweep(of: Return): Promise<ReturnState> {
  const errors: string[] = [];
  const logger = pino({ level: 'error' }, { write: (line) => void errors.push(line) });
  await sweepExpired({ ...changeDeps(db.pool), logger }, { shopId: of.shopId });
  expect(errors).toEqual([]);
  return (await reload(db.pool, of)).state;
}

const OVERDUE_MS = 28 * DAY_MS + MINUTE_MS;

describe('expiry', () => {
  test('expires a return 28 days after its first label was created, and not earlier', async () => {
    expect(await stateAfterSweep(await returnWithLabel(OVERDUE_MS))).toBe(ReturnState.EXPIRED);
    const early = await returnWithLabel(28 * DAY_MS - MINUTE_MS);
    expect(await stateAfterSweep(early)).toBe(ReturnState.OPEN);
  });

  test('publishes its expiry once', async () => {
    const of = await returnWithLabel(OVERDUE_MS);
    const before = await triggersOf(db.pool, of);
    expect(await sweepExpired(changeDeps(db.pool), { shopId: of.shopId })).toBe(1);
    expect(await sweepExpired(changeDeps(db.pool), { shopId: of.shopId })).toBe(0);
    expect(await triggersOf(db.pool, of)).toEqual([...before, 'return.updated']);
    expect((await timelineOf(db.pool, of)).at(-1)?.kind).toBe('return.expired');
  });

  test("follows the shop's own number of days", async () => {
    const of = await returnWithLabel(3 * DAY_MS, { expiryDays: 2 });
    expect(await stateAfterSweep(of)).toBe(ReturnState.EXPIRED);
  });

  test('expires a flagged return, which keeps its reasons', async () => {
    const shopId = await newShop(db.pool);
    const of = await newReturn(db.pool, shopId, { flagReasons: ['odd'] });
    await addLabel(of, { ageMs: OVERDUE_MS });
    expect(await stateAfterSweep(of)).toBe(ReturnState.EXPIRED);
    expect((await reload(db.pool, of)).flagReasons).toEqual(['odd']);
  });

  test.each([
    { status: LabelStatus.PRE_TRANSIT, state: ReturnState.EXPIRED },
    { status: LabelStatus.IN_TRANSIT, state: ReturnState.OPEN },
    { status: LabelStatus.DELIVERED, state: ReturnState.OPEN },
    { status: LabelStatus.OUT_FOR_DELIVERY, state: ReturnState.OPEN },
    { status: LabelStatus.ERROR, state: ReturnState.OPEN },
    { status: LabelStatus.FAILURE, state: ReturnState.OPEN },
  ])('label status $status leaves it in state $state', async ({ status, state }) => {
    expect(await stateAfterSweep(await returnWithLabel(OVERDUE_MS, { status }))).toBe(state);
  });

  test('decides by the first label, not by later ones', async () => {
    const renewed = await returnWithLabel(OVERDUE_MS);
    await addLabel(renewed, { ageMs: DAY_MS });
    expect(await stateAfterSweep(renewed)).toBe(ReturnState.EXPIRED);
    const sent = await returnWithLabel(OVERDUE_MS + DAY_MS, { status: LabelStatus.IN_TRANSIT });
    await addLabel(sent, { ageMs: OVERDUE_MS });
    expect(await stateAfterSweep(sent)).toBe(ReturnState.OPEN);
    const recordedLater = await returnWithLabel(DAY_MS);
    await addLabel(recordedLater, { ageMs: OVERDUE_MS });
    expect(await stateAfterSweep(recordedLater)).toBe(ReturnState.EXPIRED);
  });

  test('never expires a return with a moving parcel or arrived goods', async () => {
    const sent = await returnWithLabel(OVERDUE_MS);
    await addLabel(sent, { ageMs: DAY_MS, status: LabelStatus.IN_TRANSIT });
    expect(await stateAfterSweep(sent)).toBe(ReturnState.OPEN);
    const arrived = await returnWithLabel(OVERDUE_MS);
    const lineItemIds = arrived.lineItems.map((line) => line.lineItemId);
    await recordArrival(
      { ...changeDeps(db.pool), destinations },
      create(RecordArrivalRequestSchema, { shopId: arrived.shopId, actor, lineItemIds }),
    );
    expect(await stateAfterSweep(arrived)).toBe(ReturnState.OPEN);
  });

  test('never expires a return without a label, queued, or with an open instant refund', async () => {
    const bare = await newReturn(db.pool, await newShop(db.pool));
    expect(await stateAfterSweep(bare)).toBe(ReturnState.OPEN);
    const queued = await returnWithLabel(OVERDUE_MS);
    await requestProcessing(db.pool, queued);
    expect(await stateAfterSweep(queued)).toBe(ReturnState.OPEN);
    const paid = await returnWithLabel(OVERDUE_MS);
    await openInstantRefund(
      db.pool,
      create(OpenInstantRefundRequestSchema, {
        shopId: paid.shopId,
        actor: { ...actor },
        returnId: paid.id,
        idempotencyKey: randomUUID(),
        amount: '1.00',
      }),
    );
    expect(await stateAfterSweep(paid)).toBe(ReturnState.OPEN);
  });

  test('cancels the open label request', async () => {
    const shopId = await newShop(db.pool, { labelProvider: LabelProvider.THIRD_PARTY });
    const of = await newReturn(db.pool, shopId);
    await addLabel(of, { ageMs: OVERDUE_MS });
    const request = create(RequestLabelRequestSchema, {
      shopId,
      actor: { ...actor },
      returnId: of.id,
    });
    await requestLabel({ ...changeDeps(db.pool), destinations }, request);
    expect(await stateAfterSweep(of)).toBe(ReturnState.EXPIRED);
    expect((await triggersOf(db.pool, of)).slice(-2)).toEqual([
      'return.updated',
      'label.request.cancelled',
    ]);
  });

  test('expires only returns of the shop in the request', async () => {
    const of = await returnWithLabel(OVERDUE_MS);
    expect(await sweepExpired(changeDeps(db.pool), { shopId: of.shopId + 1n })).toBe(0);
    expect((await reload(db.pool, of)).state).toBe(ReturnState.OPEN);
  });

  test('expires once when several replicas sweep at the same time', async () => {
    const of = await returnWithLabel(OVERDUE_MS);
    const counts = await Promise.all(
      Array.from({ length: 3 }, () => sweepExpired(changeDeps(db.pool), { shopId: of.shopId })),
    );
    expect(counts.sort()).toEqual([0, 0, 1]);
  });

  test('continues after a return that cannot be expired', async () => {
    const broken = await returnWithLabel(OVERDUE_MS);
    const { shopId } = broken;
    const other = await newReturn(db.pool, shopId);
    await addLabel(other, { ageMs: OVERDUE_MS });
    // The currency does not have so many decimals, so the return cannot be read any more.
    await db.pool.query('update labels set rate = 1.2345 where shop_id = $1 and return_id = $2', [
      shopId,
      broken.id,
    ]);
    expect(await sweepExpired(changeDeps(db.pool), { shopId })).toBe(1);
    expect((await reload(db.pool, other)).state).toBe(ReturnState.EXPIRED);
  });

  test('runs in the background, for all shops', async () => {
    const of = await returnWithLabel(OVERDUE_MS);
    const sweeper = startExpiry(changeDeps(db.pool));
    await until(async () => (await reload(db.pool, of)).state === ReturnState.EXPIRED);
    await sweeper.stop();
  });
});
