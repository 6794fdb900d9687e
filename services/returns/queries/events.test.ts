import { randomUUID } from 'node:crypto';
import { fromBinary } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  invalid,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const HOUR_MS = 3_600_000;
const ago = (hours: number) => timestampFromDate(new Date(Date.now() - hours * HOUR_MS));
const lastDay = () => ({ from: ago(24), to: ago(-1) });

const cursorOf = (...parts: string[]) => Buffer.from(JSON.stringify(parts)).toString('base64url');

interface EventsQuery {
  readonly triggers?: string[];
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  readonly pageSize?: number;
  readonly cursor?: string;
}

/** Every page, one after another. */
async function readAll(shopId: bigint, query: EventsQuery) {
  const events: Uint8Array[] = [];
  for (let cursor = ''; ; ) {
    const page = await bench.client.readEvents({ shopId, actor, ...lastDay(), ...query, cursor });
    events.push(...page.events);
    cursor = page.nextCursor;
    if (cursor === '') return events;
  }
}

/** Stores rows that differ only in time, trigger and size. */
async function store(
  shopId: bigint,
  rows: readonly { trigger: string; hoursAgo: number }[],
  bytes = 36,
): Promise<void> {
  await bench.db.pool.query(
    `insert into events (shop_id, day, position, event_id, trigger, key, traceparent, occurred_at, created_at, value)
     select $1, (now() at time zone 'utc' - g.hours * interval '1 hour')::date, nextval('event_positions'), g.id,
            g.trigger, 'k', '', now(), now() - g.hours * interval '1 hour', convert_to(rpad(g.id::text, $5, 'x'), 'utf8')
       from unnest($2::float8[], $3::text[], $4::uuid[]) as g (hours, trigger, id)`,
    [
      shopId,
      rows.map((r) => r.hoursAgo),
      rows.map((r) => r.trigger),
      rows.map(() => randomUUID()),
      bytes,
    ],
  );
}

describe('read events', () => {
  test('returns the published events of the triggers and the shop, in order', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId);
    const other = await bench.submit(shopId);
    await bench.submit(await bench.shop());
    const query = { triggers: ['return.created'], pageSize: 1 };
    const events = (await readAll(shopId, query)).map((value) => fromBinary(EventSchema, value));
    expect(events.map(({ returnId }) => returnId)).toEqual([one.id, other.id]);
    expect(events[0]?.snapshot?.id).toBe(one.id);
    expect(await readAll(shopId, { triggers: ['return.closed'] })).toEqual([]);
  });

  test('returns the events of the time span, over days and with pages of any size', async () => {
    const rows = fc.record({
      trigger: fc.constantFrom('a', 'b', 'c'),
      hoursAgo: fc.integer({ min: 1, max: 100 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(rows, { maxLength: 30 }),
        fc.tuple(fc.integer({ min: 0, max: 101 }), fc.integer({ min: 1, max: 101 })),
        fc.integer({ min: 1, max: 7 }),
        async (given, [until, length], pageSize) => {
          const shopId = newShop();
          await store(shopId, given);
          // The borders are half an hour away from the rows, so that no row is on a border.
          const time = { from: ago(until + length + 0.5), to: ago(until + 0.5) };
          const query = { ...time, triggers: ['a', 'b'] };
          const expected = given.filter(
            ({ trigger, hoursAgo }) =>
              trigger !== 'c' && hoursAgo <= until + length && hoursAgo > until,
          );
          const found = await readAll(shopId, { ...query, pageSize });
          expect(found).toHaveLength(expected.length);
          expect(new Set(found.map((value) => Buffer.from(value).toString())).size).toBe(
            expected.length,
          );
          const counted = await bench.client.countEvents({ shopId, actor, ...query });
          expect(counted).toMatchObject({ count: expected.length, more: false });
        },
      ),
      { numRuns: 40 },
    );
  });

  test('continues after thousands of rows of other triggers', async () => {
    const shopId = newShop();
    const others = Array.from({ length: 5_100 }, () => ({ trigger: 'x', hoursAgo: 2 }));
    await store(shopId, [...others, { trigger: 'a', hoursAgo: 1 }]);
    const first = await bench.client.readEvents({ shopId, actor, triggers: ['a'], ...lastDay() });
    expect(first.events).toEqual([]);
    expect(first.nextCursor).not.toBe('');
    expect(await readAll(shopId, { triggers: ['a'] })).toHaveLength(1);
  });

  test('stops a page at 8 MiB', async () => {
    const shopId = newShop();
    const large = Array.from({ length: 3 }, () => ({ trigger: 'a', hoursAgo: 1 }));
    await store(shopId, large, 5 * 1024 * 1024);
    const ask = { shopId, actor, triggers: ['a'], ...lastDay() };
    const first = await bench.client.readEvents(ask);
    expect(first.events).toHaveLength(2);
    const second = await bench.client.readEvents({ ...ask, cursor: first.nextCursor });
    expect(second.events).toHaveLength(1);
    expect(second.nextCursor).toBe('');
  }, 60_000);

  test.each<[EventsQuery, string]>([
    [{ triggers: [] }, 'triggers'],
    [{ triggers: Array(21).fill('a') }, 'triggers'],
    [{ triggers: [' '] }, 'triggers[0]'],
    [{ from: ago(0), to: ago(1) }, 'to'],
    [{ from: ago(24 * 41), to: ago(0) }, 'to'],
    [{ pageSize: 201 }, 'page_size'],
    [{ pageSize: -1 }, 'page_size'],
    [{ cursor: 'x' }, 'cursor'],
    [{ cursor: cursorOf('2026-01-01', '-1') }, 'cursor'],
    [{ cursor: cursorOf('2026-13-45', '1') }, 'cursor'],
    [{ cursor: cursorOf('2026-02-29', '1') }, 'cursor'],
    [{ cursor: cursorOf('0000-01-01', '1') }, 'cursor'],
  ])('rejects %#: %s', async (query, field) => {
    const request = { shopId: newShop(), actor, triggers: ['a'], ...lastDay(), ...query };
    expect(await refusal(bench.client.readEvents(request))).toEqual(invalid(field));
  });
});
