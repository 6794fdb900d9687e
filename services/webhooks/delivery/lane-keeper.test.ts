import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { newShop } from '../../../test/support/running-service.ts';
import { until } from '../../../test/support/until.ts';
import { keyring } from '../../../test/support/webhooks.ts';
import { createShardHolder, type ShardHolder } from '../../platform/shards.ts';
import { addSecret } from '../subscriptions/secrets.ts';
import { createSubscription } from '../subscriptions/subscription-store.ts';
import { type Board, createBoard } from './board.ts';
import { createFlights } from './flights.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, laneKeyOf } from './lane.ts';
import { createLaneKeeper } from './lane-keeper.ts';
import { createRetryClock } from './retry-clock.ts';

let db: TestDatabase;
let shards: ShardHolder;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shards = createShardHolder({
    pool: db.pool,
    owner: randomUUID(),
    name: DELIVERY_LEASES,
    count: DELIVERY_SHARDS,
    // A machine that stands still must not lose them.
    leaseMs: 60_000,
  });
  await shards.rebalance();
});
afterEach(() => shards.release());

/** A lane of a shop of its own, and its endpoint. */
async function newLane(path = '') {
  const shopId = newShop();
  const fields = { topic: 'return', trigger: 'return.closed', status: undefined };
  const { subscription } = await createSubscription(db.pool, shopId, {
    fields: { ...fields, url: `https://partner.example/${path}` },
    offsetMs: 0,
    limitedHost: () => undefined,
    withSecret: (tx, subscriptionId) => addSecret(tx, { shopId, subscriptionId }, keyring),
  });
  return { shopId, subscriptionId: subscription.id };
}

/** @param pool over which it asks. */
function keeperOf(board: Board, pool: pg.Pool) {
  const about = { board, shards, flights: createFlights(), clock: createRetryClock() };
  return createLaneKeeper({ ...about, pool, onReset: () => {}, onWork: () => {} });
}

/** Asks as the pool does; `between` runs before the second of two statements that look for ready lanes. */
function interrupted(between: () => Promise<unknown>): pg.Pool {
  const looks = ['find-ready-lanes', 'find-next-ready'];
  let nth = 0;
  const query = async (statement: pg.QueryConfig) => {
    if (looks.includes(statement.name ?? '')) nth += 1;
    if (nth === 2) await between();
    return db.pool.query(statement);
  };
  return new Proxy(db.pool, {
    get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)),
  });
}

describe('a lane that went to another endpoint', () => {
  test('is looked after at that one, though nobody was told', async () => {
    const lane = await newLane();
    await db.pool.query('update lanes set ready_at = now() where shop_id = $1', [lane.shopId]);
    const board = createBoard();
    const keeper = keeperOf(board, db.pool);
    await keeper.load();
    const before = board.lanes.get(laneKeyOf(lane));
    expect(before).toBeDefined();
    const { rows } = await db.pool.query<{ id: bigint }>(
      `with moved as (
         insert into endpoints (shop_id, url, url_sha256)
         values ($1, 'https://other.example/', sha256('other')) returning id)
       update lanes l set endpoint_id = m.id, shard = m.id % ${DELIVERY_SHARDS}
         from moved m where l.shop_id = $1 returning m.id`,
      [lane.shopId],
    );
    // What is heard when the connection is new again.
    keeper.hear({ keys: [], isChange: false });
    await keeper.load();
    expect(board.lanes.get(laneKeyOf(lane))?.endpointId).toBe(rows[0]?.id);
    expect(board.health(before?.endpointKey ?? '')).toBeUndefined();
  });
});

describe('a lane that becomes ready', () => {
  test('between two looks is found at once', async () => {
    const lane = await newLane();
    await db.pool.query(
      `update lanes set ready_at = clock_timestamp() + interval '150 milliseconds' where shop_id = $1`,
      [lane.shopId],
    );
    const board = createBoard();
    const isReady = async () => {
      const { rows } = await db.pool.query<{ isReady: boolean }>(
        'select ready_at < clock_timestamp() as "isReady" from lanes where shop_id = $1',
        [lane.shopId],
      );
      return rows[0]?.isReady;
    };
    const keeper = keeperOf(
      board,
      interrupted(() => until(isReady)),
    );
    await keeper.load();
    expect(board.lanes.has(laneKeyOf(lane))).toBe(true);
  });
});
