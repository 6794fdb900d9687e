import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { RecordReceiptRequestSchema } from '../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import {
  CustomerUpload_Kind,
  LabelRequest_State,
  LabelStatus,
  Outcome,
  type Return,
  ReturnMethod,
  SubmitReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  LabelProvider,
  OpenInstantRefundRequestSchema,
  RecordLabelRequestSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { type LossyDatabase, lossyDatabase } from '../../test/kit/postgres/lossy-database.ts';
import { outcomesOfPair, pairsOf } from '../../test/kit/postgres/raced.ts';
import {
  destinations,
  newLine,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  submitDeps,
  timelineOf,
  triggersOf,
} from '../../test/kit/services/processing.ts';
import { storeOf } from '../../test/kit/services/return-stores.ts';
import {
  firstLine,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../test/kit/services/returns-bench.ts';
import { failure } from '../../test/kit/services/rpc-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { isOutage } from '../platform/postgres/outage.ts';
import { createPool } from '../platform/postgres/postgres.ts';
import { isUnavailable } from '../platform/values/errors.ts';
import { recordReceipt } from './arrivals/record-receipt.ts';
import { openInstantRefund } from './instant-refunds/instant-refunds.ts';
import { recordLabel } from './labels/labels.ts';
import { submitReturn } from './submit/submit.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const KEY = { idempotencyKey: 'k-1' };

/** A return of a shop whose labels a third party makes, without a label request. */
async function dropOff(): Promise<Return> {
  const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
  return bench.submit(shopId, { returnMethod: ReturnMethod.DROP_OFF });
}

const about = (of: Return) => ({ shopId: of.shopId, actor, returnId: of.id });

const receiptAt = ({ shopId, id: value }: Return) => ({
  shopId,
  actor,
  return: { case: 'returnId' as const, value },
});

async function labelOf(of: Return): Promise<bigint> {
  const wish = { idempotencyKey: 'label', carrier: 'DHL', createdAt: at(-9) };
  return present((await bench.client.recordLabel({ ...about(of), ...wish })).label).id;
}

const NOW = Date.now();
const at = (minutes: number) => timestampFromDate(new Date(NOW + minutes * 60_000));

/** What a shop's return has published and recorded. */
const traces = async (of: Return) => [await bench.triggers(of), await bench.timeline(of)];

/** For each RPC: a call with a key, and one with the key and other content, about a new return. */
const CALLS = {
  editReturn: async (of: Return) => {
    const edit = (reason: string) =>
      bench.client.editReturn({
        ...about(of),
        ...KEY,
        expectedRevision: of.revision,
        changes: [{ lineItemId: firstLine(of), reason }],
      });
    return { call: () => edit('Too small'), other: () => edit('Too large') };
  },
  updateLabel: async (of: Return) => {
    const labelId = await labelOf(of);
    const update = (status: LabelStatus) =>
      bench.client.updateLabel({ shopId: of.shopId, actor, labelId, status, ...KEY });
    return {
      call: () => update(LabelStatus.IN_TRANSIT),
      other: () => update(LabelStatus.DELIVERED),
    };
  },
  requestLabel: async (of: Return) => ({
    call: () => bench.client.requestLabel({ ...about(of), ...KEY }),
    other: async () => {
      const second = await bench.submit(of.shopId, { returnMethod: ReturnMethod.DROP_OFF });
      return bench.client.requestLabel({ ...about(second), ...KEY });
    },
  }),
  cancelLabelRequest: async (of: Return) => {
    const { labelRequest } = await bench.client.requestLabel(about(of));
    const cancel = (requestId: bigint) =>
      bench.client.cancelLabelRequest({ shopId: of.shopId, actor, requestId, ...KEY });
    const { id } = present(labelRequest);
    return { call: () => cancel(id), other: () => cancel(id + 1n) };
  },
  recordArrival: async (of: Return) => {
    const arrive = (returnedAt: ReturnType<typeof at>) =>
      bench.client.recordArrival({
        shopId: of.shopId,
        actor,
        lineItemIds: [firstLine(of)],
        returnedAt,
        ...KEY,
      });
    return { call: () => arrive(at(-5)), other: () => arrive(at(-4)) };
  },
  recordReceipt: async (of: Return) => {
    const receive = async (quantity: number) => {
      const items = [{ lineItemId: firstLine(of), quantity }];
      return (await bench.client.recordReceipt({ ...receiptAt(of), ...KEY, items })).arrival;
    };
    return { call: () => receive(1), other: () => receive(2) };
  },
  addCustomerUpload: async (of: Return) => {
    const add = (url: string) =>
      bench.client.addCustomerUpload({
        shopId: of.shopId,
        actor,
        lineItemId: firstLine(of),
        kind: CustomerUpload_Kind.IMAGE,
        url,
        ...KEY,
      });
    return {
      call: () => add('https://img.example.com/1.png'),
      other: () => add('https://img.example.com/2.png'),
    };
  },
};

describe.each(Object.entries(CALLS))('%s with a key', (_, prepare) => {
  test('has one effect in a race and for a repeat, with the same response', async () => {
    const submitted = await dropOff();
    const { call, other } = await prepare(submitted);
    const before = await bench.timeline(submitted);
    const [first, second] = await Promise.all([call(), call()]);
    const after = await traces(submitted);
    expect(after[1]).toHaveLength(before.length + 1);
    expect(second).toEqual(first);
    expect(await call()).toEqual(first);
    expect(await refusal(other())).toMatchObject({
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
    expect(await traces(submitted)).toEqual(after);
  });
});

describe('a repeat after later changes', () => {
  test('sets no earlier status of a label', async () => {
    const submitted = await dropOff();
    const labelId = await labelOf(submitted);
    const update = (status: LabelStatus, key = '') =>
      bench.client.updateLabel({
        shopId: submitted.shopId,
        actor,
        labelId,
        status,
        idempotencyKey: key,
      });
    await update(LabelStatus.IN_TRANSIT, 'k-1');
    await update(LabelStatus.OUT_FOR_DELIVERY);
    const { label, ignored } = await update(LabelStatus.IN_TRANSIT, 'k-1');
    expect([label?.status, ignored]).toEqual([LabelStatus.OUT_FOR_DELIVERY, false]);
  });

  test('also returns that an update was ignored', async () => {
    const submitted = await dropOff();
    const labelId = await labelOf(submitted);
    const late = () =>
      bench.client.updateLabel({
        shopId: submitted.shopId,
        actor,
        labelId,
        status: LabelStatus.IN_TRANSIT,
        occurredAt: at(-10),
        ...KEY,
      });
    expect((await late()).ignored).toBe(true);
    expect((await late()).ignored).toBe(true);
  });

  test('requests no second label', async () => {
    const submitted = await dropOff();
    const ask = () => bench.client.requestLabel({ ...about(submitted), ...KEY });
    const { labelRequest } = await ask();
    await labelOf(submitted);
    expect((await ask()).labelRequest).toEqual({
      ...labelRequest,
      state: LabelRequest_State.FULFILLED,
    });
  });
});

describe('a write whose commit got no response takes effect once when it is repeated', () => {
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
    await repeated(() => submitReturn(submitDeps(pool), request));
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

  test('recording what arrived, by its key', async () => {
    const of = await newReturn(pool, shopId);
    const items = [{ lineItemId: firstLine(of), quantity: 1 }];
    const key = { idempotencyKey: randomUUID() };
    const request = create(RecordReceiptRequestSchema, { ...receiptAt(of), ...key, items });
    const { repeated: isRepeat } = await repeated(() =>
      recordReceipt({ store: storeOf(pool), destinations }, request),
    );
    expect(isRepeat).toBe(true);
    expect(await count('arrivals', of)).toBe(1);
    expect(await triggersOf(pool, of)).toEqual(['return.updated']);
    expect((await reload(pool, of)).lineItems[0]?.arrivedQuantity).toBe(1);
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

describe('locked outbox', () => {
  const WRITES = 40;

  test('while the outbox is locked, reads succeed, and a write stops when its caller disconnects', async () => {
    const { shopId, id: returnId } = await bench.submit(await bench.shop());
    const lock = new pg.Client(bench.db.migratorUrl);
    await lock.connect();
    await lock.query('begin');
    await lock.query('lock table returns.events in access exclusive mode');

    const leaving = new AbortController();
    const flag = (options: { signal?: AbortSignal } = {}) =>
      bench.client.flagReturn({ shopId, actor, returnId, reasons: ['odd'] }, options);
    const writes = Array.from({ length: WRITES }, () => failure(flag({ signal: leaving.signal })));
    await until(async () => (await waitingForLocks()) > 1);
    for (let nth = 0; nth < 20; nth += 1) {
      await bench.client.findReturn({
        shopId,
        actor,
        selector: { case: 'returnId', value: returnId },
      });
    }
    leaving.abort();
    for (const error of await Promise.all(writes)) expect(isUnavailable(error)).toBe(true);
    // The lock still exists, and no statement of a disconnected caller waits for it any more.
    await until(async () => (await waitingForLocks()) === 0);

    await lock.query('rollback');
    await lock.end();
    // A cancelled write may have committed, so this write is of another shop.
    const shop = await bench.shop();
    await until(() =>
      bench.submit(shop).then(
        () => true,
        () => false,
      ),
    );
  });

  /** Statements of calls that wait for a lock: the flagging of a return, and the calls behind it. */
  async function waitingForLocks(): Promise<number> {
    const { rows } = await bench.db.pool.query<{ count: bigint }>(
      `select count(*) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
        and (query like '%insert into events%' or query ~ 'for (no key )?update')`,
    );
    return Number(rows[0]?.count ?? 0);
  }
});

describe('two writes of one return at the same time have the outcome of one after the other', () => {
  const by = ({ shopId, id: returnId }: Return) => ({ shopId, actor, returnId });

  /** Writes of a return. Each returns the state after it. */
  const WRITES: Readonly<Record<string, (of: Return) => Promise<unknown>>> = {
    cancel: async (of) => (await bench.client.cancelReturn(by(of))).return?.state,
    flag: async (of) =>
      (await bench.client.flagReturn({ ...by(of), reasons: ['odd'] })).return?.state,
    unflag: async (of) => (await bench.client.unflagReturn(by(of))).return?.state,
    edit: async (of) => {
      const changes = [{ lineItemId: firstLine(of), quantity: 2 }];
      const edit = { ...by(of), expectedRevision: of.revision, changes };
      return (await bench.client.editReturn(edit)).return?.lineItems[0]?.quantity;
    },
    label: async (of) => {
      const label = { ...by(of), carrier: 'Post', status: LabelStatus.IN_TRANSIT };
      await bench.client.recordLabel({ ...label, idempotencyKey: `${of.id}` });
    },
    arrival: async (of) => {
      const arrival = { shopId: of.shopId, actor, lineItemIds: [firstLine(of)] };
      return (await bench.client.recordArrival(arrival)).return?.state;
    },
    receipt: async (of) => {
      const items = [{ lineItemId: firstLine(of), quantity: 1 }];
      const call = { ...receiptAt(of), idempotencyKey: `${of.id}`, items };
      return (await bench.client.recordReceipt(call)).arrival?.items.length;
    },
    'instant refund': async (of) => {
      await bench.client.openInstantRefund({
        ...by(of),
        amount: '1.00',
        chargeReference: 'c',
        idempotencyKey: `${of.id}`,
      });
    },
    redact: async ({ shopId }) =>
      (await bench.client.redactCustomer({ shopId, actor, email: 'ann@example.com' })).returns,
  };

  async function stored({ shopId, id }: Return): Promise<unknown> {
    const { rows } = await bench.db.pool.query(
      `select r.state, r.flag_reasons, r.revision, r.customer_email,
            (select array_agg(array[l.quantity, l.arrived_quantity]) from return_lines l
              where l.shop_id = r.shop_id and l.return_id = r.id) as units,
            (select array_agg(t.kind order by t.kind) from timeline t where t.shop_id = r.shop_id and t.return_id = r.id) as kinds,
            (select array_agg(e.trigger order by e.trigger) from events e where e.shop_id = r.shop_id and e.key = concat(r.shop_id, ':', r.id)) as triggers
       from returns r where r.shop_id = $1 and r.id = $2`,
      [shopId, id],
    );
    return rows;
  }

  const text = 'select from returns where shop_id = $1 and id = $2 for update';

  // Two redactions at the same time record two redactions. The second one removes nothing.
  const pairs = pairsOf(Object.keys(WRITES)).filter((pair) => pair.join() !== 'redact,redact');

  test.each(pairs)('%s, then %s', async (...pair) => {
    const { together, serial } = await outcomesOfPair(
      {
        pool: bench.db.pool,
        make: async () => {
          const lines = [line({ quantity: 1, orderedQuantity: 5 })];
          return bench.submit(await bench.shop(), {
            lines,
            customer: { email: 'ann@example.com' },
          });
        },
        lock: ({ shopId, id }) => ({ text, values: [shopId, id] }),
        writes: WRITES,
        stored,
      },
      pair,
    );
    expect(together).toEqual(serial);
  });
});
