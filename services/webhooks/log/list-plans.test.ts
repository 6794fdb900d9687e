import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { costOf, recordingPool, vacuum } from '../../../test/kit/postgres/plans.ts';
import { createLog, type Log } from '../../../test/kit/webhooks/log.ts';
import { readWithHealth } from '../subscriptions/health.ts';
import { lastFailure } from './backlogs.ts';
import { type FilterInput, filterOfList, parseFilter } from './filter.ts';
import { deliveriesNamed, getDelivery, lastTests } from './get.ts';
import { countDeliveries, listDeliveries } from './list.ts';
import { countByHour } from './methods.ts';

// How much PostgreSQL reads for a page of a shop with 100,000 deliveries of a week, with one attempt each.

const DELIVERIES = 100_000;
const PAGE = 50;
/** A page reads each delivery, its payload and its attempts in their day. 8 KiB each. */
const BUFFERS_MAX = 3_500;
/** A page of a return reads only the few deliveries of its events. */
const RETURN_MAX = 500;
/** A rare state or trigger reads at most 5,000 deliveries. */
const SCANNED_MAX = 8_000;
/** A count reads at most 10,000 deliveries. */
const COUNTED_MAX = 16_000;

const DAY_MS = 86_400_000;
/** Midnight (UTC), so that each day's partition is full: PostgreSQL rightly scans one of a few hundred rows. */
const START = Math.floor(Date.now() / DAY_MS - 7) * DAY_MS;
const STEP_MS = (7 * DAY_MS) / DELIVERIES;

let log: Log;
let shopId: bigint;
let subscriptions: readonly bigint[];
let recorded: ReturnType<typeof recordingPool>;
beforeAll(async () => {
  log = await createLog();
  shopId = log.newShop();
  subscriptions = [await log.subscribe(shopId), await log.subscribe(shopId)];
  await fill(log.pool);
  await vacuum(log.db.migratorUrl);
  recorded = recordingPool(log.db.url);
});
afterAll(async () => {
  await recorded?.pool.end();
  await log?.stop();
});

/** A part is inserted in much less than the time limit of a statement, even on a slow machine. */
const PART = 2_500;

/** SQL for the id of the delivery, and of the event, number `n`: the time of the event, and the number. */
const idOf = (
  version: string,
) => `(lpad(to_hex($2::bigint + floor(n * $3::float8)::bigint), 12, '0')
  || '${version}' || lpad(to_hex(n >> 12), 3, '0') || '8' || lpad(to_hex(n & 4095), 3, '0') || '000000000001')::uuid`;

/** Of 1,000 deliveries one waits, one is exhausted, one is of another event, and two are tests. */
async function fill(pool: pg.Pool): Promise<void> {
  for (let made = 0; made < DELIVERIES; made += PART) {
    const values = [shopId, START, STEP_MS, made, made + PART - 1];
    const numbers = 'generate_series($4::int, $5::int) n';
    await pool.query(
      `insert into payloads (shop_id, id, event_id, trigger, topic, api_version, return_id, body)
       select $1, ${idOf('8')}, ${idOf('7')}, 'return.closed', 'return', '2026-10', 1 + n / 10, '{}' from ${numbers}`,
      values,
    );
    await pool.query(
      `insert into deliveries (shop_id, id, subscription_id, payload_id, trigger, topic, ended, finished_at, is_test)
       select $1, ${idOf('8')}, $6::bigint + n % 2, ${idOf('8')},
              case when n % 1000 = 3 then 'return.created' else 'return.closed' end, 'return',
              case n % 1000 when 1 then null when 2 then 'exhausted' else 'delivered' end,
              case when n % 1000 = 1 then null else now() end, n % 1000 in (4, 5)
         from ${numbers}`,
      [...values, subscriptions[0]],
    );
    await pool.query(
      `insert into attempts (shop_id, delivery_id, number, started_at, duration_ms, status, error, url,
                             request_headers, response_excerpt)
       select $1, ${idOf('8')}, 1, now(), 20, 200, '', 'https://hooks.example.com/', '{}', 'ok' from ${numbers}`,
      values,
    );
    await pool.query(
      `insert into queue (shop_id, subscription_id, id, payload_id, bytes, next_attempt_at, queued_at)
       select $1, $6::bigint + n % 2, ${idOf('8')}, ${idOf('8')}, 2, now(), now() from ${numbers} where n % 1000 = 1`,
      [...values, subscriptions[0]],
    );
  }
}

/** Runs `read`. Returns the cost of all its statements together, and their number. */
async function costOfRead(read: (pool: pg.Pool) => Promise<unknown>) {
  recorded.taken();
  await read(recorded.pool);
  const statements = recorded.taken();
  const costs = [];
  for (const statement of statements) costs.push(await costOf(log.pool, statement));
  return {
    statements: statements.length,
    buffers: costs.reduce((sum, { buffers }) => sum + buffers, 0),
    scans: costs.flatMap(({ scans }) => scans),
  };
}

const NOTHING: FilterInput = {
  subscriptionId: 0n,
  url: '',
  topic: '',
  trigger: '',
  states: [],
  returnId: 0n,
};
const day = (n: number) => timestampFromDate(new Date(START + n * DAY_MS));

async function page(pool: pg.Pool, given: Partial<FilterInput>, cursor = '') {
  const filter = await filterOfList(pool, shopId, parseFilter({ ...NOTHING, ...given }));
  return listDeliveries(pool, filter, { cursor, limit: PAGE, withBodies: false });
}

describe('a page of 100,000 deliveries', () => {
  test.each<[string, Partial<FilterInput>, number, number]>([
    ['newest first', {}, PAGE, BUFFERS_MAX],
    ['of a day', { from: day(2), to: day(3) }, PAGE, BUFFERS_MAX],
    ['of a return', { returnId: 500n }, 10, RETURN_MAX],
    ['that wait', { states: [DeliveryState.WAITING] }, PAGE, BUFFERS_MAX],
    ['that are exhausted', { states: [DeliveryState.EXHAUSTED] }, 5, SCANNED_MAX],
    ['of a rare event', { trigger: 'return.created' }, 5, SCANNED_MAX],
    ['of no topic', { topic: 'label' }, 0, SCANNED_MAX],
  ])(
    '%s: one statement for the page with its attempts, by index',
    async (_name, filter, size, most) => {
      const found = await page(log.pool, filter);
      expect(found.deliveries).toHaveLength(size);
      const cost = await costOfRead((pool) => page(pool, filter));
      expect(cost.scans).toEqual([]);
      expect(cost.statements).toBe(1);
      expect(cost.buffers).toBeLessThan(most);
    },
  );

  test.each<[string, Partial<FilterInput>, number, number]>([
    ['', {}, PAGE, BUFFERS_MAX],
    [', in a day', { from: day(2), to: day(3) }, PAGE, BUFFERS_MAX],
    [' and one return', { returnId: 500n }, 5, RETURN_MAX],
    [' that wait', { states: [DeliveryState.WAITING] }, PAGE, BUFFERS_MAX],
    [' that are exhausted', { states: [DeliveryState.EXHAUSTED] }, 0, SCANNED_MAX],
  ])('of one webhook%s: one statement, by index', async (_name, filter, size, most) => {
    const ofOne = { ...filter, subscriptionId: subscriptions[1] ?? 0n };
    expect((await page(log.pool, ofOne)).deliveries).toHaveLength(size);
    const cost = await costOfRead((pool) => page(pool, ofOne));
    expect(cost).toMatchObject({ scans: [], statements: 1 });
    expect(cost.buffers).toBeLessThan(most);
  });

  test('a page of a return that begins in the middle reads only events from there on', async () => {
    const ofReturn = { returnId: 500n };
    const { deliveries } = await page(log.pool, ofReturn);
    const cursor = deliveries[4]?.row.id.replaceAll('-', '') ?? '';
    const rest = await page(log.pool, ofReturn, cursor);
    expect(rest.deliveries.map(({ row }) => row.id)).toEqual(
      deliveries.slice(5).map(({ row }) => row.id),
    );
    const cost = await costOfRead((pool) => page(pool, ofReturn, cursor));
    expect(cost).toMatchObject({ scans: [], statements: 1 });
    expect(cost.buffers).toBeLessThan(RETURN_MAX);
  });

  test.each<[string, Partial<FilterInput>, number]>([
    ['of all deliveries', {}, COUNTED_MAX],
    ['of those that are exhausted', { states: [DeliveryState.EXHAUSTED] }, COUNTED_MAX],
    ['of those that wait', { states: [DeliveryState.WAITING] }, COUNTED_MAX],
    ['of those of a return', { returnId: 500n }, RETURN_MAX],
  ])(
    'the count %s is one statement over at most 10,000 deliveries, by index',
    async (_name, given, most) => {
      const filter = await filterOfList(log.pool, shopId, parseFilter({ ...NOTHING, ...given }));
      const cost = await costOfRead((pool) => countDeliveries(pool, filter));
      expect(cost).toMatchObject({ scans: [], statements: 1 });
      expect(cost.buffers).toBeLessThan(most);
    },
  );

  test('a page in the middle costs as much as the first', async () => {
    const { nextCursor } = await page(log.pool, { to: day(3) });
    const cost = await costOfRead((pool) => page(pool, {}, nextCursor));
    expect(cost.scans).toEqual([]);
    expect(cost.buffers).toBeLessThan(BUFFERS_MAX);
  });
});

describe('of 100,000 deliveries', () => {
  test('those of an event are found by its id, which has the time of the event', async () => {
    const event = log.eventOf(shopId, { at: new Date(START + 3 * DAY_MS) });
    const search = { shopId, name: event.eventId };
    const ids = await log.add(
      shopId,
      subscriptions.map((subscriptionId) => ({ subscriptionId, event })),
    );
    const found = await deliveriesNamed(log.pool, search);
    expect(found.map(({ row }) => row.id)).toEqual(ids);
    const cost = await costOfRead((pool) => deliveriesNamed(pool, search));
    expect(cost).toMatchObject({ scans: [], statements: 1 });
    expect(cost.buffers).toBeLessThan(100);
  });

  test('one is read by its id', async () => {
    const { deliveries } = await page(log.pool, { to: day(1) });
    const id = deliveries[0]?.row.id ?? '';
    const cost = await costOfRead((pool) => getDelivery(pool, { shopId, id, withBody: true }));
    expect(cost).toMatchObject({ scans: [], statements: 1 });
    expect(cost.buffers).toBeLessThan(100);
  });

  test('a week is counted by hour, with one statement by index', async () => {
    const o = { shopId, subscriptionId: null, hours: 168, now: new Date(START + 7 * DAY_MS) };
    const counted = await countByHour(log.pool, o);
    expect(counted.reduce((sum, { delivered }) => sum + delivered, 0)).toBeGreaterThan(90_000);
    expect(await costOfRead((pool) => countByHour(pool, o))).toMatchObject({
      scans: [],
      statements: 1,
    });
  });

  test('the health of every webhook is read with one statement by index', async () => {
    const cost = await costOfRead((pool) => readWithHealth(pool, { shopId, today: new Date() }));
    expect(cost).toMatchObject({ scans: [], statements: 1 });
    expect(cost.buffers).toBeLessThan(BUFFERS_MAX);
  });

  test('the newest failure of a webhook is found with one statement by index', async () => {
    const queue = { shopId, subscriptionId: subscriptions[0] ?? 0n };
    const cost = await costOfRead((pool) => lastFailure(pool, queue));
    expect(cost).toMatchObject({ scans: [], statements: 1 });
    expect(cost.buffers).toBeLessThan(BUFFERS_MAX);
  });

  test.each([
    ['2026-10', 2],
    ['2026-07', 0],
  ])(
    'the last test of every webhook in %s is found with one statement by index',
    async (version, found) => {
      const o = { shopId, version };
      expect(await lastTests(log.pool, o)).toHaveLength(found);
      const cost = await costOfRead((pool) => lastTests(pool, o));
      expect(cost).toMatchObject({ scans: [], statements: 1 });
      expect(cost.buffers).toBeLessThan(BUFFERS_MAX);
    },
  );
});
