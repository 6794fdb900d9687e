import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import {
  type ExpectedLine,
  ListExpectedRequestSchema,
} from '../../../proto/gen/rms/returns/v1/arrivals_pb.ts';
import {
  LabelStatus,
  type Return,
  ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { type Fields, line } from '../../../test/kit/builders.ts';
import { costOf, vacuum } from '../../../test/kit/postgres/plans.ts';
import { WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  firstLine,
  invalid,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { listExpected } from './list-expected.ts';

type List = Partial<Fields<MessageInitShape<typeof ListExpectedRequestSchema>>>;

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const list = async (shopId: bigint, more: List = {}): Promise<ExpectedLine[]> =>
  (await bench.client.listExpected({ shopId, actor, ...more })).lines;

const idsOf = (lines: readonly ExpectedLine[]) => lines.map(({ lineItemId }) => lineItemId);

const receive = (of: Return, quantity: number) =>
  bench.client.recordReceipt({
    shopId: of.shopId,
    actor,
    idempotencyKey: crypto.randomUUID(),
    return: { case: 'returnId', value: of.id },
    items: [{ lineItemId: firstLine(of), quantity }],
  });

describe('what is expected', () => {
  test('are the line items with units on the way, with what a warehouse needs to know', async () => {
    const shopId = await bench.shop();
    const of = await bench.submit(shopId, {
      destinationId: WAREHOUSE,
      lines: [line({ quantity: 3, sku: 'S-1', barcode: '42', title: 'Scarf' })],
    });
    for (const trackingNumber of ['T-1', 'T-2']) {
      await bench.client.recordLabel({
        shopId,
        actor,
        returnId: of.id,
        carrier: 'Evri',
        trackingNumber,
        idempotencyKey: trackingNumber,
      });
    }
    await receive(of, 1);
    expect(await list(shopId)).toMatchObject([
      {
        returnId: of.id,
        lineItemId: firstLine(of),
        orderName: '#1001',
        sku: 'S-1',
        barcode: '42',
        title: 'Scarf',
        expectedQuantity: 3,
        arrivedQuantity: 1,
        destinationId: WAREHOUSE,
        trackingNumber: 'T-2',
      },
    ]);
    await receive(of, 2);
    expect(await list(shopId)).toEqual([]);
  });

  test.each([
    ['open', ReturnState.OPEN, true],
    ['closed', ReturnState.CLOSED, true],
    ['cancelled', ReturnState.CANCELLED, false],
    ['expired', ReturnState.EXPIRED, false],
  ] as const)('of a return that is %s', async (end, state, isExpected) => {
    const of = await bench.submit(await bench.shop());
    if (end !== 'open') await bench.end(of, end);
    expect((await bench.read(of)).state).toBe(state);
    expect(idsOf(await list(of.shopId))).toEqual(isExpected ? [firstLine(of)] : []);
  });

  test('are again those of a return that opens again', async () => {
    const of = await bench.submit(await bench.shop());
    await bench.end(of, 'expired');
    await bench.client.recordLabel({
      shopId: of.shopId,
      actor,
      returnId: of.id,
      carrier: 'Evri',
      status: LabelStatus.IN_TRANSIT,
      idempotencyKey: 'k',
    });
    expect(idsOf(await list(of.shopId))).toEqual([firstLine(of)]);
  });

  test('are in review, too, but not what the shopper keeps', async () => {
    const shopId = await bench.shop();
    const reviewed = await bench.submit(shopId, { flagReasons: ['odd'] });
    await bench.submit(shopId, { returnMethod: ReturnMethod.KEEP_ITEM });
    expect(idsOf(await list(shopId))).toEqual([firstLine(reviewed)]);
  });

  test('is not what arrived as a whole, or was removed, but what an edit adds', async () => {
    const of = await bench.submit(await bench.shop(), { lines: [line(), line(), line()] });
    const [whole, removed, kept] = of.lineItems.map(({ lineItemId }) => lineItemId);
    const lineItemIds = [present(whole)];
    await bench.client.recordArrival({ shopId: of.shopId, actor, lineItemIds });
    const edit = async (change: object) => {
      const { revision: expectedRevision } = await bench.read(of);
      const call = { shopId: of.shopId, actor, returnId: of.id, expectedRevision };
      await bench.client.editReturn({ ...call, changes: [change] });
    };
    await edit({ lineItemId: removed, remove: true });
    expect(idsOf(await list(of.shopId))).toEqual([kept]);
    const items = [{ lineItemId: present(kept), quantity: 2 }];
    await bench.client.recordReceipt({
      shopId: of.shopId,
      actor,
      idempotencyKey: 'k',
      return: { case: 'returnId', value: of.id },
      items,
    });
    expect(await list(of.shopId)).toEqual([]);
    await edit({ lineItemId: kept, quantity: 3 });
    expect(await list(of.shopId)).toMatchObject([{ expectedQuantity: 3, arrivedQuantity: 2 }]);
  });
});

describe('the list of what is expected', () => {
  test('has filters, each of which selects', async () => {
    const shopId = await bench.shop();
    const of = await bench.submit(shopId, {
      order: { providerOrderId: 7n, name: '#7' },
      destinationId: WAREHOUSE,
      lines: [line({ sku: 'S-7' })],
    });
    const other = await bench.submit(shopId, { lines: [line({ sku: 'S-8' }), line()] });
    await bench.client.recordLabel({
      shopId,
      actor,
      returnId: of.id,
      carrier: 'Evri',
      trackingNumber: 'T-7',
      idempotencyKey: 'k',
    });
    const filters: List[] = [
      { destinationId: WAREHOUSE },
      { trackingNumber: ' T-7' },
      { orderName: '#7' },
      { sku: 'S-7' },
      { updatedSince: present((await bench.read(of)).updatedAt) },
    ];
    for (const filter of filters) {
      expect(idsOf(await list(shopId, filter))).toEqual([firstLine(of)]);
    }
    const absent: List[] = [
      { destinationId: 99n },
      { trackingNumber: 'T-8' },
      { orderName: '#8' },
      { sku: 'S-9' },
      { updatedSince: timestampFromDate(new Date(Date.now() + 60_000)) },
    ];
    for (const filter of absent) expect(await list(shopId, filter)).toEqual([]);
    expect(idsOf(await list(shopId))).toEqual([
      firstLine(of),
      ...other.lineItems.map(({ lineItemId }) => lineItemId),
    ]);
  });

  test('has pages, whose cursors belong to the list and its filters', async () => {
    const lines = Array.from({ length: 3 }, () => line({ sku: 'S-1' }));
    const of = await bench.submit(await bench.shop(), { lines });
    const page = (more: List) => bench.client.listExpected({ shopId: of.shopId, actor, ...more });
    const first = await page({ pageSize: 2 });
    const second = await page({ pageSize: 2, cursor: first.nextCursor });
    const ids = of.lineItems.map(({ lineItemId }) => lineItemId);
    expect(idsOf([...first.lines, ...second.lines])).toEqual(ids);
    expect(second.nextCursor).toBe('');
    const foreign = { cursor: first.nextCursor, sku: 'S-1' };
    expect(await refusal(page(foreign))).toEqual(invalid('cursor'));
    expect(await refusal(page({ cursor: 'x' }))).toEqual(invalid('cursor'));
    expect(await refusal(page({ pageSize: 101 }))).toEqual(invalid('page_size'));
  });
});

/** Line items that are expected. As many again have arrived, or will never arrive. */
const EXPECTED = 12_000;
const PAGE = 50;
/** A page reads each of its line items, their returns and labels. 8 KiB each. */
const BUFFERS_MAX = 1_500;
/** A page of changed returns reads up to 5,000 of them. */
const CHANGED_BUFFERS_MAX = 10_000;

/** A return each minute, in turns: two that are expected, one that expired, one that was closed and has arrived. */
async function fill(pool: pg.Pool, shopId: bigint): Promise<void> {
  const returns = EXPECTED * 2;
  const part = 2_000;
  for (let first = 1; first <= returns; first += part) {
    await pool.query(
      `insert into orders (shop_id, provider_order_id) select $1, n from generate_series($2::int, $3::int) n`,
      [shopId, first, first + part - 1],
    );
    await pool.query(
      `insert into returns (shop_id, created_at, updated_at, archived_at, order_id, order_name, state, type, outcome,
         return_method, currency, presentment_currency, destination_id,
         return_total, shipping, shipping_tax, credit_shipping, return_credit, handling_fee, refund,
         presentment_return_total, presentment_shipping, presentment_shipping_tax, presentment_credit_shipping,
         presentment_return_credit, presentment_handling_fee, presentment_refund)
       select o.shop_id, at, at, case when n % 4 = 3 then at end, o.id, '#' || n,
              case n % 4 when 2 then 'expired' when 3 then 'closed' else 'open' end, 'standard', 'refund', 'mail',
              'GBP', 'GBP', case when n % 1000 = 0 then 7 else 8 end,
              10, 0, 0, 0, 0, 0, 10, 10, 0, 0, 0, 0, 0, 10
         from orders o
        cross join lateral (select o.provider_order_id as n,
                                   timestamptz '2026-01-01Z' + o.provider_order_id * interval '1 minute' as at) made
        where o.shop_id = $1 and o.provider_order_id >= $2`,
      [shopId, first],
    );
    await pool.query(
      `insert into return_lines (shop_id, return_id, position, provider_line_item_id, sku, quantity, outcome, returned_at,
         price, discount, tax, refund_item, refund_tax, refund_shipping, refund_shipping_tax,
         presentment_price, presentment_discount, presentment_tax, presentment_refund_item, presentment_refund_tax,
         presentment_refund_shipping, presentment_refund_shipping_tax)
       select r.shop_id, r.id, 0, o.provider_order_id, case when o.provider_order_id % 500 = 0 then 'RARE' else 'USUAL' end,
              1, 'refund', case when r.state = 'closed' then r.created_at end,
              10, 0, 0, 10, 0, 0, 0, 10, 0, 0, 10, 0, 0, 0
         from orders o join returns r on r.shop_id = o.shop_id and r.order_id = o.id
        where o.shop_id = $1 and o.provider_order_id >= $2`,
      [shopId, first],
    );
    await pool.query(
      `insert into labels (shop_id, return_id, carrier, tracking_number, status, line_item_ids, created_at, updated_at, heard_at)
       select r.shop_id, r.id, 'Evri', 'EV' || o.provider_order_id, 'in_transit', '{}', r.created_at, r.created_at, r.created_at
         from orders o join returns r on r.shop_id = o.shop_id and r.order_id = o.id
        where o.shop_id = $1 and o.provider_order_id >= $2`,
      [shopId, first],
    );
  }
}

describe('a page of 12,000 expected line items', () => {
  let shopId: bigint;
  beforeAll(async () => {
    shopId = newShop();
    await fill(bench.db.pool, shopId);
    await vacuum(bench.db.migratorUrl);
  }, 120_000);

  /** The pool, and the statements that it ran. */
  function recorded() {
    const statements: pg.QueryConfig[] = [];
    const pool = new Proxy(bench.db.pool, {
      get: (target, name) =>
        name === 'query'
          ? (statement: pg.QueryConfig) => {
              statements.push(statement);
              return target.query(statement);
            }
          : Reflect.get(target, name),
    });
    return { pool, statements };
  }

  const at = (minute: number) =>
    timestampFromDate(new Date(Date.UTC(2026, 0, 1) + minute * 60_000));

  test.each<[string, List, number]>([
    ['without a filter', {}, PAGE],
    ['of a rare destination', { destinationId: 7n }, 24],
    ['of the usual destination', { destinationId: 8n }, PAGE],
    ['of a rare SKU', { sku: 'RARE' }, 48],
    ['of the usual SKU', { sku: 'USUAL' }, PAGE],
    ['of an order', { orderName: '#4' }, 1],
    ['of a parcel', { trackingNumber: 'EV5' }, 1],
    ['of a parcel that arrived', { trackingNumber: 'EV3' }, 0],
    ['changed since an early time', { updatedSince: at(10) }, PAGE],
    ['changed since some days', { updatedSince: at(EXPECTED * 2 - 4_000) }, PAGE],
    ['changed since a day', { updatedSince: at(EXPECTED * 2 - 900) }, PAGE],
    [
      'of a SKU, changed since some days',
      { sku: 'RARE', updatedSince: at(EXPECTED * 2 - 4_000) },
      9,
    ],
    ['changed lately', { updatedSince: at(EXPECTED * 2 - 40) }, 21],
    ['changed never', { updatedSince: at(EXPECTED * 3) }, 0],
  ])('%s: one statement, by index', async (_name, filter, size) => {
    const { pool, statements } = recorded();
    const request = create(ListExpectedRequestSchema, { shopId, actor, ...filter });
    const first = await listExpected(pool, request);
    expect(first.lines).toHaveLength(size);
    if (first.nextCursor !== '') {
      // A page in the middle costs as much as the first.
      const after = Buffer.from(JSON.stringify([`${first.lines.at(-1)?.lineItemId}`]));
      const middle = Buffer.from(
        JSON.stringify([`${(first.lines.at(-1)?.lineItemId ?? 0n) + BigInt(EXPECTED)}`]),
      );
      const cursor = first.nextCursor.replace(
        after.toString('base64url'),
        middle.toString('base64url'),
      );
      await listExpected(pool, create(ListExpectedRequestSchema, { ...request, cursor }));
      expect(statements).toHaveLength(2);
    } else expect(statements).toHaveLength(1);
    for (const statement of statements) {
      const { buffers, scans } = await costOf(bench.db.pool, statement);
      expect(scans).toEqual([]);
      expect(buffers).toBeLessThan(filter.updatedSince ? CHANGED_BUFFERS_MAX : BUFFERS_MAX);
    }
  });
});
