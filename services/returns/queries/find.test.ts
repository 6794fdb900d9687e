import { randomUUID } from 'node:crypto';
import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  DispositionOutcome,
  type Return,
  type Submitter,
  SubmitterSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ReturnSelectorSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line, newId } from '../../../test/kit/builders.ts';
import {
  firstLine,
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { cleanText, normalForm } from '../../platform/values/text.ts';
import { loadFitting } from '../store/load.ts';
import type { Selector } from './find.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const MEBIBYTE = 2 ** 20;
const day = (n: number) => timestampFromDate(new Date(Date.UTC(2026, 0, n)));

/** Makes a return as large as after many small calls. */
async function addUploads(of: Return, bytes: number): Promise<void> {
  const url = `https://x.example/${'x'.repeat(2_000)}`;
  await bench.db.pool.query(
    `insert into uploads (shop_id, return_id, line_item_id, kind, url)
     select $1, $2, $3, 'image', $4 from generate_series(1, $5)`,
    [of.shopId, of.id, firstLine(of), url, Math.ceil(bytes / url.length)],
  );
}

describe('find return', () => {
  const find = async (
    shopId: bigint,
    selector: Parameters<typeof bench.client.findReturn>[0]['selector'],
  ) =>
    (await bench.client.findReturn({ shopId, actor, selector: selector ?? { case: undefined } }))
      .return;

  test('finds by id, either order id, and order name', async () => {
    const one = await bench.submit(await bench.shop());
    const order = present(one.order);
    expect(await find(one.shopId, { case: 'returnId', value: one.id })).toEqual(one);
    const value = order.providerOrderId;
    expect(await find(one.shopId, { case: 'orderId', value })).toEqual(one);
    expect(await find(one.shopId, { case: 'providerOrderId', value })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderId', value: order.id })).toEqual(one);
    expect(await find(one.shopId, { case: 'orderName', value: order.name })).toEqual(one);
  });

  test('finds by the order id of its response, also when another order has this id at the provider', async () => {
    const shopId = await bench.shop();
    const first = await bench.submit(shopId);
    const ours = present(first.order).id;
    const second = await bench.submit(shopId, { order: { providerOrderId: ours, name: '#2' } });
    expect(await find(shopId, { case: 'orderId', value: ours })).toEqual(first);
    expect(await find(shopId, { case: 'providerOrderId', value: ours })).toEqual(second);
    const unknown = { case: 'providerOrderId', value: present(second.order).id } as const;
    expect(await refusal(find(shopId, unknown))).toEqual(notFound('RETURN'));
  });

  test.each(['CAF\u00c9-1', 'CAFE\u0301-1', ' CAF\u00c9-1', 'CAFE\u0301-1\u00a0'])(
    'finds an order name in another spelling, and returns it as sent: %j',
    async (name) => {
      const shopId = await bench.shop();
      const stored = 'CAFE\u0301-1 ';
      await bench.submit(shopId, { order: { providerOrderId: newId(), name: stored } });
      expect((await find(shopId, { case: 'orderName', value: name }))?.order?.name).toBe(stored);
    },
  );

  test('compares names as `normalForm` does, whatever their characters', async () => {
    const texts = fc.sample(fc.string({ unit: 'binary', maxLength: 12 }).filter(cleanText), 2_000);
    const spaces = Array.from({ length: 0x3001 }, (_, at) => `${String.fromCharCode(at + 1)}x`);
    const all = [...texts, ...spaces, '\ufeffx'];
    const { rows } = await bench.db.pool.query<{ normal: string }>(
      `select normal_form(text) as normal from unnest($1::text[]) with ordinality as given (text, at)
        order by at`,
      [all],
    );
    expect(rows.map(({ normal }) => normal)).toEqual(all.map(normalForm));
  });

  test('returns the newest of several, and the later one of two with the same time', async () => {
    const shopId = await bench.shop();
    const order = { providerOrderId: newId(), name: '#same' };
    await bench.submit(shopId, { order, submittedAt: day(3) });
    const newest = await bench.submit(shopId, { order, submittedAt: day(3) });
    await bench.submit(shopId, { order, submittedAt: day(2) });
    const value = order.providerOrderId;
    expect(await find(shopId, { case: 'orderId', value })).toEqual(newest);
    expect(await find(shopId, { case: 'orderName', value: '#same' })).toEqual(newest);
  });

  test('finds the newest return of an order among those of a submitter', async () => {
    const shopId = await bench.shop();
    const order = { providerOrderId: newId(), name: '#shared' };
    const by = (one: Submitter['by']) => ({ submitter: create(SubmitterSchema, { by: one }) });
    const [storefront, app] = [
      by({ case: 'storefrontKey', value: true }),
      by({ case: 'app', value: 'app' }),
    ];
    const first = await bench.submit(shopId, { order, submittedAt: day(1), ...storefront });
    const ofApp = await bench.submit(shopId, { order, submittedAt: day(2), ...app });
    const newest = await bench.submit(shopId, { order, submittedAt: day(3) });
    const selectors = [
      { case: 'orderName', value: '#shared' },
      { case: 'orderId', value: order.providerOrderId },
      { case: 'providerOrderId', value: order.providerOrderId },
    ] as const;
    for (const selector of selectors) {
      const of = async (submitter = {}) =>
        (await bench.client.findReturn({ shopId, actor, selector, ...submitter })).return?.id;
      expect(await of()).toBe(newest.id);
      expect(await of(storefront)).toBe(first.id);
      expect(await of(app)).toBe(ofApp.id);
      const other = of(by({ case: 'app', value: 'another' }));
      expect(await refusal(other)).toEqual(notFound('RETURN'));
    }
    const selector = { case: 'returnId', value: newest.id } as const;
    const theirs = bench.client.findReturn({ shopId, actor, selector, ...app });
    expect(await refusal(theirs)).toEqual(notFound('RETURN'));
  });

  test('finds no part of a name and no unknown return, and requires a selector', async () => {
    const { shopId } = await bench.submit(await bench.shop());
    for (const value of ['#100', '#1001x', 'a\0b']) {
      expect(await refusal(find(shopId, { case: 'orderName', value }))).toEqual(notFound('RETURN'));
    }
    expect(await refusal(find(shopId, { case: 'returnId', value: 0n }))).toEqual(
      notFound('RETURN'),
    );
    expect(await refusal(find(shopId, { case: undefined }))).toEqual(invalid('selector'));
  });
});

describe('get returns', () => {
  test('returns in the order of the request and omits what does not exist', async () => {
    const shopId = await bench.shop();
    const [first, second] = [await bench.submit(shopId), await bench.submit(shopId)];
    const returnIds = [second.id, 999_999_998n, first.id];
    const { returns } = await bench.client.getReturns({ shopId, actor, returnIds });
    expect(returns).toEqual([second, first]);
    expect(await refusal(bench.client.getReturns({ shopId, actor }))).toEqual(
      invalid('return_ids'),
    );
  });

  test('returns the first one of any size, and stops before the next that does not fit', async () => {
    const shopId = await bench.shop();
    const [large, largest] = [await bench.submit(shopId), await bench.submit(shopId)];
    const small = await bench.submit(shopId);
    await addUploads(large, 5 * MEBIBYTE);
    await addUploads(largest, 9 * MEBIBYTE);
    const get = async (...of: Return[]) => {
      const returnIds = of.map(({ id }) => id);
      const { returns } = await bench.client.getReturns({ shopId, actor, returnIds });
      return returns.map(({ id }) => id);
    };
    expect(await get(small, large, small)).toEqual([small.id, large.id]);
    expect(await get(large, largest, small)).toEqual([large.id]);
    expect(await get(largest, small)).toEqual([largest.id]);
    expect(await get(largest)).toEqual([largest.id]);
  });
});

describe('get snapshot', () => {
  const snapshot = (of: Return, revision: bigint) =>
    bench.client.getSnapshot({ shopId: of.shopId, actor, returnId: of.id, revision });

  test('returns a return as it was, when its event has no snapshot', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      lines: Array.from({ length: 15 }, () => line()),
    });
    const { shopId } = submitted;
    const note = 'n'.repeat(65_535);
    const assess = (assessmentId: bigint) =>
      bench.client.applyAssessments({
        shopId,
        actor,
        assessments: submitted.lineItems.map(({ lineItemId }) => ({
          lineItemId,
          assessmentId,
          disposition: { outcome: DispositionOutcome.DONATE, note },
        })),
      });
    const { returns } = await assess(1n);
    await assess(2n);
    await bench.client.flagReturn({ shopId, actor, returnId: submitted.id, reasons: ['x'] });

    const published = (await bench.events(shopId)).find((event) => event.revision === 2n);
    expect(published).toMatchObject({ trigger: 'return.updated', snapshotOmitted: true });
    expect(published?.snapshot).toBeUndefined();
    expect((await snapshot(submitted, 2n)).return).toEqual(returns[0]);
    expect((await snapshot(submitted, 3n)).return?.flagReasons).toEqual(['x']);
  });

  test('rejects a revision that is not stored', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect((await snapshot(submitted, 1n)).return).toEqual(submitted);
    expect(await refusal(snapshot(submitted, 2n))).toEqual(notFound('RETURN'));
  });
});

describe('check line items', () => {
  test('names the shop’s lines and their returns, no others', async () => {
    const one = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const foreign = await bench.submit(await bench.shop());
    const ids = one.lineItems.map((item) => item.lineItemId);
    const lineItemIds = [...ids, 1n << 40n, present(foreign.lineItems[0]).lineItemId];
    const { owners } = await bench.client.checkLineItems({
      shopId: one.shopId,
      actor,
      lineItemIds,
    });
    expect(owners.map(({ lineItemId, returnId }) => ({ lineItemId, returnId }))).toEqual(
      ids.map((lineItemId) => ({ lineItemId, returnId: one.id })),
    );
  });
});

describe('find returns', () => {
  const find = async (shopId: bigint, ...selectors: Selector[]) => {
    const asked = selectors.map((selector) => ({ selector }));
    const { found } = await bench.client.findReturns({ shopId, actor, selectors: asked });
    return found.sort((a, b) => Number(present(a.return).id - present(b.return).id));
  };
  const byId = (of: Return): Selector => ({ case: 'returnId', value: of.id });

  test('returns each return once for all its selectors, and omits what does not exist', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, { order: { providerOrderId: newId(), name: '#one' } });
    const two = await bench.submit(shopId);
    const order = present(one.order);
    const found = await find(
      shopId,
      { case: 'orderName', value: '#one' },
      byId(two),
      { case: 'returnId', value: newId() },
      { case: 'orderId', value: order.providerOrderId },
      { case: 'orderId', value: newId() },
      { case: 'orderName', value: 'no\0ne' },
      byId(one),
    );
    expect(found).toMatchObject([
      { positions: [0, 3, 6], return: one },
      { positions: [1], return: two },
    ]);
  });

  test('returns the newest return of an order, as findReturn does', async () => {
    const shopId = await bench.shop();
    const order = { providerOrderId: newId(), name: '#same' };
    await bench.submit(shopId, { order, submittedAt: day(2) });
    const newest = await bench.submit(shopId, { order, submittedAt: day(3) });
    const found = await find(
      shopId,
      { case: 'orderId', value: order.providerOrderId },
      { case: 'orderName', value: '#same' },
    );
    expect(found).toMatchObject([{ positions: [0, 1], return: newest }]);
  });

  test('omits what does not fit', async () => {
    const shopId = await bench.shop();
    const ids = [await bench.submit(shopId), await bench.submit(shopId)].map((of) => of.id);
    ids.reverse();
    const read = async (maxBytes: number, keepsFirst = false) => {
      const found = await loadFitting(bench.db.pool, shopId, ids, { maxBytes, keepsFirst });
      return found.map((of) => of.id);
    };
    expect(await read(1_000_000)).toEqual(ids);
    expect(await read(1_500)).toEqual(ids.slice(0, 1));
    expect(await read(10)).toEqual([]);
    expect(await read(10, true)).toEqual(ids.slice(0, 1));
  });

  test('requires 1 to 32 selectors, none empty', async () => {
    const shopId = await bench.shop();
    const of = await bench.submit(shopId);
    expect(await find(shopId, ...Array.from({ length: 32 }, () => byId(of)))).toHaveLength(1);
    const ask = (selectors: MessageInitShape<typeof ReturnSelectorSchema>[]) =>
      refusal(bench.client.findReturns({ shopId, actor, selectors }));
    expect(await ask([])).toEqual(invalid('selectors'));
    expect(await ask([{}])).toEqual(invalid('selectors[0].selector'));
    const many = Array.from({ length: 33 }, () => ({ selector: byId(of) }));
    expect(await ask(many)).toEqual(invalid('selectors'));
  });
});

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
    `insert into events (shop_id, day, position, event_id, trigger, key, traceparent, occurred_at, created_at, value,
                         shard, written_by)
     select $1, (now() at time zone 'utc' - g.hours * interval '1 hour')::date, nextval('event_positions'), g.id,
            g.trigger, 'k', '', now(), now() - g.hours * interval '1 hour', convert_to(rpad(g.id::text, $5, 'x'), 'utf8'),
            0, pg_current_xact_id()
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
  });

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
