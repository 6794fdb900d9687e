import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { costOf, recordingPool, vacuum } from '../../../test/kit/postgres/plans.ts';
import { newShop } from '../../../test/kit/services/processing.ts';
import { shopWithOrder } from '../../../test/kit/services/shop-with-order.ts';

// How much PostgreSQL reads for a submission of a shop with many returns of which it has no statistics yet.

const RETURNS = 2_000;
/** Returns of another shop. PostgreSQL has statistics of them. */
const OLD_RETURNS = 5_000;
/**
 * One statement reads the rows of one order and of its returns. 8 KiB each. Without statistics of the shop, PostgreSQL may
 * read an index of it once. All rows of the shop for each of its rows are hundreds of thousands.
 */
const BUFFERS_MAX = 400;

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

/** Copies the only return of a shop, each copy to an order of its own. */
async function copyReturn(shopId: bigint, count = RETURNS): Promise<void> {
  await db.pool.query(
    'insert into orders (shop_id, provider_order_id) select $1, 1000 + n from generate_series(1, $2::int) n',
    [shopId, count],
  );
  await db.pool.query(
    `insert into returns overriding system value
     select copied.* from returns r
       join orders o on o.shop_id = r.shop_id and o.provider_order_id > 1000
      cross join lateral jsonb_populate_record(r, jsonb_build_object('id', r.id + o.id, 'order_id', o.id,
        'customer_email', o.id || '@example.com')) copied
      where r.shop_id = $1`,
    [shopId],
  );
  await db.pool.query(
    `insert into return_lines overriding system value
     select copied.* from return_lines l
       join returns r on r.shop_id = l.shop_id and r.id <> l.return_id
      cross join lateral jsonb_populate_record(l, jsonb_build_object(
        'id', l.id + r.id, 'return_id', r.id, 'provider_line_item_id', 1000000 + r.id)) copied
      where l.shop_id = $1`,
    [shopId],
  );
}

/** Submits a return, after the other steps of its shopper. Returns what was read. */
async function firstReturn(shopId: bigint) {
  const { pool, taken } = recordingPool(db.url);
  const shop = shopWithOrder({ pool, shopId });
  await shop.setPolicy({ review: { returnsAbove: 5, returnsDays: 30 } });
  await shop.eligibilityOf();
  await shop.submit();
  const statements = taken().filter(({ text }) => !text.includes('insert into'));
  await pool.end();
  expect(statements.length).toBeGreaterThan(15);
  return statements;
}

async function expectFewPages(client: pg.ClientBase, statements: readonly pg.QueryConfig[]) {
  for (const one of statements) {
    const { buffers } = await costOf(client, one);
    expect([one.text, buffers <= BUFFERS_MAX, buffers]).toEqual([one.text, true, buffers]);
  }
}

test("an eligibility and a submission read no other orders' rows, when they were planned before these were there", async () => {
  const shopId = await newShop(db.pool);
  const statements = await firstReturn(shopId);
  await onClient(async (client) => {
    // A connection plans a statement with a name once. The tables are almost empty now.
    await client.query('set plan_cache_mode = force_generic_plan');
    for (const one of statements) if (isNamed(one)) await client.query(one);
    await copyReturn(shopId);
    const planned = statements.map((one) => (isNamed(one) ? execution(one) : one));
    await expectFewPages(client, planned);
  });
});

test('the same, of a new shop beside one of which PostgreSQL has statistics', async () => {
  const oldShop = await newShop(db.pool);
  await firstReturn(oldShop);
  await copyReturn(oldShop, OLD_RETURNS);
  await vacuum(db.migratorUrl);
  const shopId = await newShop(db.pool);
  const statements = await firstReturn(shopId);
  await copyReturn(shopId);
  await onClient((client) => expectFewPages(client, statements));
});

async function onClient(work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const client = await db.pool.connect();
  await work(client).finally(() => client.release(true));
}

const isNamed = (one: pg.QueryConfig): one is pg.QueryConfig & { readonly name: string } =>
  one.name !== undefined;

/** Runs a statement as the connection has planned it. */
function execution({ name, values = [] }: pg.QueryConfig & { readonly name: string }) {
  return { text: `execute "${name}"(${values.map(literal).join(', ')})` };
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return `'{${value.join(',')}}'`;
  return pg.escapeLiteral(value instanceof Date ? value.toISOString() : `${value}`);
}
