import { randomUUID } from 'node:crypto';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pino from 'pino';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  LabelStatus,
  type Return,
  ReturnSchema,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  LabelProvider,
  OpenInstantRefundRequestSchema,
  RecordArrivalRequestSchema,
  RecordLabelRequestSchema,
  RequestLabelRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  destinations,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  timelineOf,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { changeDeps, storeOf } from '../../../test/kit/services/return-stores.ts';
import {
  firstLine,
  invalid,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../../test/kit/services/returns-bench.ts';
import { refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { openInstantRefund } from '../instant-refunds/instant-refunds.ts';
import { requestLabel } from '../labels/label-requests.ts';
import { recordLabel } from '../labels/labels.ts';
import { recordArrival } from '../logistics/logistics.ts';
import { makeLarge, statementsDuring } from '../store/testing/large-returns.ts';
import { startExpiry, sweepExpired } from './expiry.ts';
import { purge } from './purge.ts';

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

describe('redact customer', () => {
  let bench: ReturnsBench;
  beforeAll(async () => {
    bench = await startReturnsBench();
  });
  afterAll(() => bench.stop());

  const customer = {
    email: 'Gone@Example.com',
    firstName: 'Greta',
    lastName: 'Gone',
    address: { name: 'Greta Gone', address1: '1 Gone Street' },
  };
  const redact = (shopId: bigint, email = 'gone@example.COM') =>
    bench.client.redactCustomer({ shopId, actor, email });

  async function tables(): Promise<string[]> {
    const { rows } = await bench.db.pool.query<{ table_name: string }>(
      `select table_name from information_schema.tables
      where table_schema = 'returns' and table_name not like 'events%' and table_type = 'BASE TABLE'`,
    );
    return rows.map((row) => row.table_name);
  }

  /** The bytes in a row as text. PostgreSQL writes them in hexadecimal. */
  function readable(row: string): string {
    return row.replace(/\\\\?x([0-9a-f]+)/g, (_, hex) =>
      Buffer.from(hex, 'hex').toString('latin1'),
    );
  }

  async function addSnapshots(of: Return, revisions: readonly number[]): Promise<void> {
    const uploads = [{ url: 'https://x.example/face.png' }];
    const value = toBinary(
      ReturnSchema,
      create(ReturnSchema, { id: of.id, customer, lineItems: [{ uploads }] }),
    );
    await bench.db.pool.query(
      `insert into snapshots (shop_id, return_id, revision, value)
     select $1, $2, revision, $4 from unnest($3::bigint[]) revision`,
      [of.shopId, of.id, revisions, value],
    );
  }

  /** Whether the shopper was removed from each stored snapshot of a shop, by return and revision. */
  async function cleared(shopId: bigint): Promise<boolean[]> {
    const { rows } = await bench.db.pool.query<{ value: Uint8Array }>(
      'select value from snapshots where shop_id = $1 order by return_id, revision',
      [shopId],
    );
    return rows.map(({ value }) => {
      const { customer: kept, lineItems } = fromBinary(ReturnSchema, value);
      return kept === undefined && lineItems.every(({ uploads }) => uploads.length === 0);
    });
  }

  test('removes a shopper from all returns, and publishes it in the order of their events', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, { customer });
    const other = await bench.submit(shopId, { customer });
    const otherCustomer = await bench.submit(shopId, { customer: { email: 'else@example.com' } });
    await bench.client.addCustomerUpload({
      shopId,
      actor,
      lineItemId: firstLine(one),
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/face.png',
    });

    expect(await redact(shopId)).toMatchObject({ returns: 2, uploads: 1 });
    for (const redacted of [one, other]) {
      const after = await bench.read(redacted);
      expect(after.customer).toMatchObject({});
      expect(JSON.stringify(after.customer)).not.toMatch(/gone/i);
      expect(after.lineItems[0]?.uploads).toEqual([]);
      expect((await bench.triggers(redacted)).slice(-2)).toEqual([
        'return.updated',
        'customer.redacted',
      ]);
    }
    const published = (await bench.events(shopId)).filter(
      (one) => one.trigger === 'customer.redacted',
    );
    expect(published.map((event) => event.detail.value)).toMatchObject([
      { returnIds: [one.id] },
      { returnIds: [other.id] },
    ]);
    expect(await bench.read(otherCustomer)).toEqual(otherCustomer);
    expect(await redact(shopId)).toMatchObject({ returns: 0, uploads: 0 });
  });

  test('leaves no data of the shopper in any table except the events of the last days', async () => {
    const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
    const submitted = await bench.submit(shopId, {
      customer,
      lines: Array.from({ length: 15 }, () => line()),
    });
    await bench.client.addCustomerUpload({
      shopId,
      actor,
      lineItemId: firstLine(submitted),
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/greta.png',
    });
    await bench.client.applyAssessments({
      shopId,
      actor,
      assessments: submitted.lineItems.map(({ lineItemId }) => ({
        lineItemId,
        assessmentId: 1n,
        disposition: { outcome: DispositionOutcome.DONATE, note: 'n'.repeat(65_535) },
      })),
    });
    await redact(shopId);
    for (const table of await tables()) {
      const { rows } = await bench.db.pool.query<{ row: string }>(
        `select t::text as row from ${table} t`,
      );
      const kept = rows.map((one) => readable(one.row)).join('\n');
      expect(`${table}: ${/greta|gone@|gone street/i.exec(kept)?.[0]}`).toBe(`${table}: undefined`);
    }
  });

  test('rejects uploads to a redacted return', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId, { customer });
    await redact(shopId);
    const upload = bench.client.addCustomerUpload({
      shopId,
      actor,
      lineItemId: firstLine(submitted),
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/face.png',
    });
    expect(await refusal(upload)).toEqual(stateForbids);
    expect((await bench.read(submitted)).lineItems[0]?.uploads).toEqual([]);
  });

  test('needs an e-mail address', async () => {
    expect(await refusal(redact(await bench.shop(), ' '))).toEqual(invalid('email'));
  });

  test('clears large snapshots, with one in memory at a time', async () => {
    const shopId = await bench.shop();
    await addSnapshots(await bench.submit(shopId, { customer }), [101, 102, 103]);
    await addSnapshots(await bench.submit(shopId), [101, 102, 103]);
    const statements = await statementsDuring(() => redact(shopId));
    const held = statements.map(({ rows }) => rows.filter((row) => 'value' in row).length);
    expect(Math.max(...held)).toBe(1);
    expect(await cleared(shopId)).toEqual([true, true, true, false, false, false]);
  });

  test('redacts fewer returns at a time when they are large', async () => {
    const shopId = await bench.shop();
    for (let n = 0; n < 3; n++) {
      await makeLarge(bench.db.pool, await bench.submit(shopId, { customer }));
    }
    await bench.submit(shopId, { customer });
    const statements = await statementsDuring(async () => {
      expect(await redact(shopId)).toMatchObject({ returns: 4, uploads: 7_500 });
    });
    const locked = statements.filter(({ text }) => /from returns .* for update/.test(text));
    // The first transaction runs again with a permit, which the call keeps for the others.
    expect(locked.map(({ rows }) => rows.length)).toEqual([1, 1, 1, 2]);
  });

  test('redacts more returns than fit into one transaction', async () => {
    const shopId = await bench.shop();
    const submittedAt = timestampFromDate(new Date('2026-01-01T00:00:00Z'));
    for (let n = 0; n < 6; n++) {
      await Promise.all(
        Array.from({ length: 10 }, () => bench.submit(shopId, { customer, submittedAt })),
      );
    }
    expect((await redact(shopId)).returns).toBe(60);
  });
});

describe('the purge', () => {
  let of: Return;
  beforeEach(async () => {
    of = await newReturn(db.pool, await newShop(db.pool));
  });

  const EVENT_DAYS = 7;

  async function addKey(operation: string, days: number): Promise<void> {
    await db.pool.query(
      `insert into idempotency_keys (shop_id, operation, key, request_hash, result_id, created_at)
     values ($1, $2, $3, '', $4, now() - $5 * interval '1 day')`,
      [of.shopId, operation, `${operation} ${days}`, of.id, days],
    );
  }

  async function addSnapshot(revision: number, days: number): Promise<void> {
    await db.pool.query(
      `insert into snapshots (shop_id, return_id, revision, value, created_at)
     values ($1, $2, $3, '', now() - $4 * interval '1 day')`,
      [of.shopId, of.id, revision, days],
    );
  }

  test('removes keys after 90 days, but never those of submissions and shipments', async () => {
    await addKey('RecordLabel', 89);
    await addKey('RecordLabel', 91);
    await addKey('SubmitReturn', 4_000);
    await addKey('RecordPartnerShipment', 4_000);
    expect(await purge(db.pool, EVENT_DAYS)).toBe(1);
    const { rows } = await db.pool.query<{ key: string }>(
      `select key from idempotency_keys where shop_id = $1 and key like '% %' order by key`,
      [of.shopId],
    );
    expect(rows.map((row) => row.key)).toEqual([
      'RecordLabel 89',
      'RecordPartnerShipment 4000',
      'SubmitReturn 4000',
    ]);
  });

  test('keeps large snapshots two days longer than their events', async () => {
    await addSnapshot(1, EVENT_DAYS + 1.9);
    await addSnapshot(2, EVENT_DAYS + 2.1);
    expect(await purge(db.pool, EVENT_DAYS)).toBe(1);
    const { rows } = await db.pool.query(
      'select revision from snapshots where shop_id = $1 and return_id = $2',
      [of.shopId, of.id],
    );
    expect(rows).toEqual([{ revision: 1n }]);
  });
});
