import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import {
  Outcome,
  type Return,
  SubmitReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  OpenInstantRefundRequestSchema,
  RecordLabelRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { type LossyDatabase, lossyDatabase } from '../../test/kit/postgres/lossy-database.ts';
import {
  actor,
  destinations,
  newLine,
  newReturn,
  newShop,
  onlyProvider,
  requestProcessing,
  timelineOf,
  triggersOf,
} from '../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../test/kit/services/return-stores.ts';
import { isOutage } from '../platform/outage.ts';
import { createPool } from '../platform/postgres.ts';
import { createEmbeddedCommerce } from './commerce/embedded.ts';
import { openInstantRefund } from './instant-refunds/instant-refunds.ts';
import { recordLabel } from './labels/labels.ts';
import { submitReturn } from './submit/submit.ts';

let db: TestDatabase;
let lossy: LossyDatabase;
let pool: pg.Pool;
let shopId: bigint;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  lossy = await lossyDatabase(db.url);
  pool = createPool(lossy.url);
  shopId = await newShop(pool);
});
afterAll(async () => {
  await pool.end();
  await lossy.close();
  await db.drop();
});

/** Calls once, and loses the response of the successful commit. Then calls again, like a caller. */
async function repeated<T>(call: () => Promise<T>): Promise<T> {
  const before = lossy.lost();
  lossy.loseNextCommit();
  const error = await call().then(
    () => undefined,
    (caught: unknown) => caught,
  );
  // Over gRPC this is UNAVAILABLE, over REST 503.
  expect(isOutage(error)).toBe(true);
  expect(lossy.lost()).toBe(before + 1);
  return call();
}

const count = async (table: string, of: Return): Promise<number> => {
  const text = `select from ${table} where shop_id = $1 and return_id = $2`;
  return (await pool.query(text, [of.shopId, of.id])).rowCount ?? 0;
};

describe('a write whose commit got no response takes effect once when it is repeated', () => {
  test('submitting a return, by its key', async () => {
    const request = create(SubmitReturnRequestSchema, {
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      order: { providerOrderId: 77n, name: '#77' },
      currency: 'GBP',
      outcome: Outcome.REFUND,
      lines: [newLine()],
    });
    const providers = onlyProvider(createEmbeddedCommerce(pool));
    await repeated(() => submitReturn({ ...changeDeps(pool), destinations, providers }, request));
    const { rows } = await pool.query(
      `select from events where shop_id = $1 and trigger = 'return.created'`,
      [shopId],
    );
    expect(rows).toHaveLength(1);
  });

  test('ProcessReturn, by the return', async () => {
    const of = await newReturn(pool, shopId);
    expect(await repeated(() => requestProcessing(pool, of))).toMatchObject({
      case: 'alreadyQueued',
    });
    expect(await count('processing_jobs', of)).toBe(1);
    const kinds = (await timelineOf(pool, of)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'return.processing.queued')).toHaveLength(1);
  });

  test('recording a label, by its key', async () => {
    const of = await newReturn(pool, shopId);
    const request = create(RecordLabelRequestSchema, {
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      returnId: of.id,
      carrier: 'DPD',
      trackingNumber: 'T1',
      url: 'https://labels.example/1',
      rate: '4.20',
    });
    await repeated(() => recordLabel(storeOf(pool), request));
    expect(await count('labels', of)).toBe(1);
    const triggers = await triggersOf(pool, of);
    expect(triggers.filter((trigger) => trigger === 'label.created')).toHaveLength(1);
  });

  test('opening an instant refund, by its key', async () => {
    const of = await newReturn(pool, shopId);
    const request = create(OpenInstantRefundRequestSchema, {
      shopId,
      actor,
      idempotencyKey: randomUUID(),
      returnId: of.id,
      amount: '5.00',
      chargeReference: 'ch_1',
    });
    await repeated(() => openInstantRefund(pool, request));
    expect(await count('instant_refunds', of)).toBe(1);
  });
});
