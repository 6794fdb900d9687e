import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { LabelStatus, Outcome, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  SearchReturnsRequest_Archived as Archived,
  SearchReturnsRequestSchema,
  SearchReturnsRequest_Sort as Sort,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { costOf, vacuum } from '../../../test/kit/postgres/plans.ts';
import { queryDeps } from '../../../test/kit/services/return-stores.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { selectReturns } from './find.ts';
import { searchReturns } from './search.ts';

// How much PostgreSQL reads for one page of a shop with 50,000 returns. Most are closed, as in every old shop.

const RETURNS = 50_000;
const PAGE = 100;
/** A page reads each of its returns, their orders and labels, and at most a page of each state. 8 KiB each. */
const BUFFERS_MAX = 3_500;

let bench: ReturnsBench;
let shopId: bigint;
beforeAll(async () => {
  bench = await startReturnsBench();
  shopId = newShop();
  await fill(bench.db.pool);
  await vacuum(bench.db.migratorUrl);
});
afterAll(() => bench.stop());

/** A part is inserted in much less than the time limit of a statement, even on a slow machine. */
const PART = 2_500;

/**
 * A return each minute: one of 500 is open, the others are closed. One of 5,000 has a label with an error, one has no
 * label, one is an upsell, and one was reported as fraud.
 */
async function fill(pool: pg.Pool): Promise<void> {
  for (let made = 0; made < RETURNS; made += PART) await fillPart(pool, made + 1);
}

async function fillPart(pool: pg.Pool, first: number): Promise<void> {
  await pool.query(
    `insert into orders (shop_id, provider_order_id) select $1, n from generate_series($2::int, $3::int) n`,
    [shopId, first, first + PART - 1],
  );
  await pool.query(
    `insert into returns (shop_id, created_at, updated_at, archived_at, order_id, order_name, customer_email,
       state, type, outcome, return_method, currency, presentment_currency, destination_id,
       return_total, shipping, shipping_tax, credit_shipping, return_credit, handling_fee, refund,
       presentment_return_total, presentment_shipping, presentment_shipping_tax,
       presentment_credit_shipping, presentment_return_credit, presentment_handling_fee,
       presentment_refund, fraud_reported_at)
     select o.shop_id, at, at + interval '3 days', case when is_open then null else at end,
            o.id, '#' || o.provider_order_id, 'shopper' || o.provider_order_id || '@example.com',
            case when is_open then 'open' else 'closed' end, 'standard',
            case when o.provider_order_id % 5000 = 1 then 'upsell' else 'refund' end, 'mail', 'GBP', 'GBP',
            case when o.provider_order_id % 1000 = 0 then 7 else 8 end,
            10, 0, 0, 0, 0, 0, 10, 10, 0, 0, 0, 0, 0, 10,
            case when o.provider_order_id % 5000 = 3 then at end
       from orders o
      cross join lateral (select timestamptz '2026-01-01Z' + o.provider_order_id * interval '1 minute' as at,
                                 o.provider_order_id % 500 = 0 as is_open) made
      where o.shop_id = $1 and o.provider_order_id >= $2`,
    [shopId, first],
  );
  await pool.query(
    `insert into labels (shop_id, return_id, carrier, tracking_number, status, line_item_ids, created_at,
                         updated_at, heard_at)
     select r.shop_id, r.id, 'Evri', 'EV' || r.order_id,
            case when o.provider_order_id % 5000 = 0 then 'error' else 'delivered' end, '{}',
            r.created_at, r.created_at, r.created_at
       from orders o join returns r on r.shop_id = o.shop_id and r.order_id = o.id
      where o.shop_id = $1 and o.provider_order_id >= $2 and o.provider_order_id % 5000 <> 2`,
    [shopId, first],
  );
}

type Search = MessageInitShape<typeof SearchReturnsRequestSchema>;

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

/** Runs a search, for summaries unless it says otherwise. Returns its page and its statements. */
async function searched(search: Search) {
  const { pool, statements } = recorded();
  const request = { shopId, actor, summaries: true, pageSize: PAGE, ...search };
  const found = await searchReturns(queryDeps(pool), create(SearchReturnsRequestSchema, request));
  return { ...found, statements };
}

const at = (day: number) => timestampFromDate(new Date(Date.UTC(2026, 0, day)));

describe('a page of the summaries of 50,000 returns', () => {
  test.each<[string, Search, number]>([
    ['newest first', { archived: Archived.INCLUDE }, PAGE],
    ['oldest first', { archived: Archived.INCLUDE, sort: Sort.CREATED_ASC }, PAGE],
    ['last changed', { archived: Archived.INCLUDE, sort: Sort.UPDATED_DESC }, PAGE],
    [
      'changed since',
      { archived: Archived.INCLUDE, sort: Sort.UPDATED_ASC, updatedFrom: at(20) },
      PAGE,
    ],
    [
      'submitted between',
      { archived: Archived.INCLUDE, createdFrom: at(10), createdTo: at(11) },
      PAGE,
    ],
    ['not archived', {}, PAGE],
    ['open', { states: [ReturnState.OPEN] }, PAGE],
    ['in review, of which there are none', { states: [ReturnState.REVIEW] }, 0],
    ['only archived', { archived: Archived.ONLY }, PAGE],
    ['of a rare destination', { archived: Archived.INCLUDE, destinationId: 7n }, 50],
    ['of the usual destination', { archived: Archived.INCLUDE, destinationId: 8n }, PAGE],
    [
      'with a rare label status',
      { archived: Archived.INCLUDE, labelStatuses: [LabelStatus.ERROR] },
      10,
    ],
    ['without a label', { archived: Archived.INCLUDE, withoutLabel: true }, 10],
    [
      'without a label, or with a rare status',
      { archived: Archived.INCLUDE, withoutLabel: true, labelStatuses: [LabelStatus.ERROR] },
      20,
    ],
    ['of a rare outcome', { archived: Archived.INCLUDE, outcomes: [Outcome.UPSELL] }, 10],
    ['of the usual outcome', { archived: Archived.INCLUDE, outcomes: [Outcome.REFUND] }, PAGE],
    [
      'with the usual label status',
      { archived: Archived.INCLUDE, labelStatuses: [LabelStatus.DELIVERED] },
      PAGE,
    ],
    ['reported as fraud', { archived: Archived.INCLUDE, fraudReportedOnly: true }, 10],
    ['of a SKU that nothing has', { archived: Archived.INCLUDE, sku: 'S-1' }, 0],
    ['with an order name', { archived: Archived.INCLUDE, query: '#40000' }, 1],
    ['with an order name without #', { archived: Archived.INCLUDE, query: '40000' }, 1],
    ['with a tracking number', { archived: Archived.INCLUDE, query: 'EV 9' }, 0],
    ['with an e-mail address', { archived: Archived.INCLUDE, query: 'shopper7@example.com' }, 1],
  ])('%s: one statement, all by index', async (_name, search, size) => {
    const { summaries, statements } = await searched(search);
    expect(summaries).toHaveLength(size);
    expect(statements).toHaveLength(1);
    for (const statement of statements) {
      const { buffers, scans } = await costOf(bench.db.pool, statement);
      expect(scans).toEqual([]);
      expect(buffers).toBeLessThan(BUFFERS_MAX);
    }
  });

  test('the return of an order name in another spelling is found by index', async () => {
    const { pool, statements } = recorded();
    const [id] = await selectReturns(pool, shopId, [{ case: 'orderName', value: ' #40000' }]);
    expect(id).toBeDefined();
    for (const statement of statements) {
      const { buffers, scans } = await costOf(bench.db.pool, statement);
      expect(scans).toEqual([]);
      expect(buffers).toBeLessThan(20);
    }
    expect(statements).toHaveLength(1);
  });

  test('a page in the middle costs as much as the first', async () => {
    const middle = { createdAt: at(18), id: 1n };
    const parts = [`${Number(middle.createdAt.seconds) * 1_000}`, `${middle.id}`];
    const place = Buffer.from(JSON.stringify(parts)).toString('base64url');
    const { nextCursor } = await searched({ archived: Archived.INCLUDE });
    const cursor = nextCursor.replace(/^[^.]*/, place);
    const { summaries, statements } = await searched({ archived: Archived.INCLUDE, cursor });
    expect(summaries).toHaveLength(PAGE);
    expect(statements).toHaveLength(1);
    for (const statement of statements) {
      expect((await costOf(bench.db.pool, statement)).buffers).toBeLessThan(BUFFERS_MAX);
    }
  });
});

/** Most items that count for a total are read from an index alone. */
describe('a page of the portal, which also has the total', () => {
  const PORTAL = { archived: Archived.INCLUDE, details: true };

  test.each<[string, Search, number]>([
    ['of all', {}, 50],
    ['of a state', { states: [ReturnState.OPEN] }, 50],
    ['of a rare outcome', { outcomes: [Outcome.UPSELL] }, 10],
    ['of the usual outcome', { outcomes: [Outcome.REFUND] }, 50],
    ['with a rare label status', { labelStatuses: [LabelStatus.ERROR] }, 10],
    ['without a label', { withoutLabel: true }, 10],
    ['of a rare destination', { destinationId: 7n }, 50],
    ['reported as fraud', { fraudReportedOnly: true }, 10],
    ['flagged, of which there are none', { flaggedOnly: true }, 0],
    ['with an order name', { query: '#40000' }, 1],
    ['with an order name without #', { query: '40000' }, 1],
  ])(
    '%s: one statement for the page with its details and the total, by index',
    async (_name, filter, size) => {
      const found = await searched({ ...PORTAL, ...filter, pageSize: 50 });
      const { summaries, statements } = found;
      expect(summaries).toHaveLength(size);
      expect(found.total).toBeGreaterThanOrEqual(size);
      expect(statements).toHaveLength(1);
      for (const statement of statements) {
        const { buffers, scans } = await costOf(bench.db.pool, statement);
        expect(scans).toEqual([]);
        expect(buffers).toBeLessThan(BUFFERS_MAX);
      }
    },
  );
});
