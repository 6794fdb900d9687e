import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  DeliveryStateSchema,
  type DeliveryState as StateMessage,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createLog, type Ended, type Log } from '../../../test/kit/webhooks/log.ts';
import { sql, unnamed } from '../../platform/postgres/sql.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { type IdRange, rangeOfEvent, rangesOfEvents } from '../delivery-id.ts';
import type { DeliveryState } from './delivery.ts';
import { type FilterInput, filterOfList, parseFilter, resolveFilter } from './filter.ts';
import { getDelivery, relatedDeliveries } from './get.ts';
import { listDeliveries } from './list.ts';

let log: Log;
beforeAll(async () => {
  log = await createLog();
});
afterAll(() => log?.stop());

const stateText = enumText(DeliveryStateSchema);
/** A state that only newer callers know. */
const STRANGE: StateMessage = JSON.parse('99');
const NOTHING: FilterInput = {
  subscriptionId: 0n,
  url: '',
  topic: '',
  trigger: '',
  states: [],
  returnId: 0n,
};

const at = (ms: number) => timestampFromDate(new Date(ms));

/** All pages, one after another. */
async function readAll(shopId: bigint, given: Partial<FilterInput>, limit = 50) {
  const filter = await filterOfList(log.pool, shopId, parseFilter({ ...NOTHING, ...given }));
  const found = [];
  for (let cursor = ''; ; ) {
    const page = await listDeliveries(log.pool, filter, { cursor, limit, withBodies: false });
    expect(page.deliveries.length).toBeLessThanOrEqual(limit);
    found.push(...page.deliveries);
    cursor = page.nextCursor;
    if (cursor === '') return found;
  }
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

describe('the log', () => {
  test('returns exactly the deliveries of the filter, newest event first, in pages of any size', async () => {
    const start = Date.now() - 3 * DAY_MS;
    const shopId = log.newShop();
    const live = await log.subscribe(shopId);
    const paused = await log.subscribe(shopId, { url: 'https://b.example.com/' });
    const gone = await log.subscribe(shopId, { url: 'https://b.example.com/' });
    const subscriptions = [live, paused, gone];
    const draws = fc.sample(
      fc.record({
        subscriptionId: fc.constantFrom(...subscriptions),
        trigger: fc.constantFrom('return.closed' as const, 'return.created' as const),
        topic: fc.constantFrom('return' as const, 'label' as const),
        ended: fc.constantFrom<Ended>(null, 'delivered', 'exhausted'),
        at: fc.integer({ min: 0, max: 72 }).map((hour) => new Date(start + hour * HOUR_MS)),
        returnId: fc.constantFrom(1n, 2n),
      }),
      120,
    );
    const ids = await log.add(shopId, draws);
    await log.change(shopId, paused, { status: 'inactive', url: 'https://b.example.com/' });
    await log.unsubscribe(shopId, gone);
    const shown = (one: (typeof draws)[number]): DeliveryState => {
      if (one.ended) return one.ended;
      if (one.subscriptionId === gone) return 'dropped';
      return one.subscriptionId === paused ? 'held' : 'waiting';
    };
    const urlOf = (id: bigint) =>
      id === live ? 'https://hooks.example.com/' : 'https://b.example.com/';
    const wish = fc.record(
      {
        subscriptionId: fc.constantFrom(...subscriptions),
        url: fc.constantFrom('https://hooks.example.com/', 'https://b.example.com/', 'https://c/'),
        topic: fc.constantFrom('return', 'label'),
        trigger: fc.constantFrom('return.closed', 'return.created'),
        states: fc.uniqueArray(
          fc.constantFrom<DeliveryState>('waiting', 'held', 'delivered', 'exhausted', 'dropped'),
        ),
        returnId: fc.constantFrom(1n, 2n, 3n),
        from: fc.integer({ min: -1, max: 40 }),
        to: fc.integer({ min: 41, max: 73 }),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(wish, fc.integer({ min: 1, max: 60 }), async (wanted, limit) => {
        const { from, to, states = [], ...rest } = wanted;
        const found = await readAll(
          shopId,
          {
            ...rest,
            states: states.map((state) => stateText.fromText(state)),
            ...(from !== undefined && { from: at(start + from * HOUR_MS) }),
            ...(to !== undefined && { to: at(start + to * HOUR_MS) }),
          },
          limit,
        );
        const expected = draws
          .map((one, n) => ({ ...one, id: ids[n] ?? '' }))
          .filter(
            (one) =>
              (rest.subscriptionId === undefined || rest.subscriptionId === one.subscriptionId) &&
              (rest.url === undefined || rest.url === urlOf(one.subscriptionId)) &&
              (rest.topic === undefined || rest.topic === one.topic) &&
              (rest.trigger === undefined || rest.trigger === one.trigger) &&
              (rest.returnId === undefined || rest.returnId === one.returnId) &&
              (states.length === 0 || states.includes(shown(one))) &&
              (from === undefined || one.at.getTime() >= start + from * HOUR_MS) &&
              (to === undefined || one.at.getTime() < start + to * HOUR_MS),
          )
          .sort((one, other) => (one.id < other.id ? 1 : -1));
        expect(found.map(({ row }) => [row.id, row.state])).toEqual(
          expected.map((one) => [one.id, shown(one)]),
        );
      }),
      { numRuns: 80 },
    );
  });

  test('reads the deliveries of a return in the ranges of its events, each range once', async () => {
    const ids = fc.sample(fc.uuid(), 50);
    const again = ids.map((id) => rangeOfEvent(id).last);
    const given = sql`select unnest(${[...ids, ...again]}::uuid[]) as id`;
    const { rows } = await log.pool.query<IdRange>(unnamed(rangesOfEvents(given)));
    const byFirst = (one: IdRange, other: IdRange) => (one.first < other.first ? -1 : 1);
    expect(rows.toSorted(byFirst)).toEqual(ids.map(rangeOfEvent).toSorted(byFirst));
  });

  test('continues in the middle of an event of a return, whose body has a higher id than its deliveries', async () => {
    const shopId = log.newShop();
    const subscriptions = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const event = log.eventOf(shopId, { returnId: 7n });
    const ids = await log.add(
      shopId,
      subscriptions.map((subscriptionId) => ({ subscriptionId, event })),
    );
    const found = await readAll(shopId, { returnId: 7n }, 1);
    expect(found.map(({ row }) => row.id)).toEqual(ids.toReversed());
  });

  test('never returns data of another shop, whatever the cursor', async () => {
    const [shopId, other] = [log.newShop(), log.newShop()];
    const theirs = await log.subscribe(other);
    const [id = ''] = await log.add(other, [{ subscriptionId: theirs }]);
    const filter = await filterOfList(log.pool, shopId, parseFilter(NOTHING));
    const cursor = id.replaceAll('-', '').replace(/.$/, 'f');
    const page = await listDeliveries(log.pool, filter, { cursor, limit: 10, withBodies: true });
    expect(page).toEqual({ deliveries: [], nextCursor: '' });
    await expect(getDelivery(log.pool, { shopId, id, withBody: true })).rejects.toThrow(/exist/);
  });

  test('continues past thousands of other deliveries, page by page', async () => {
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const old = new Date(Date.now() - HOUR_MS);
    await log.add(shopId, [{ subscriptionId, ended: 'exhausted', at: old }]);
    const others = Array.from({ length: 5_200 }, () => ({
      subscriptionId,
      ended: 'delivered' as const,
    }));
    await log.add(shopId, others);
    const states = [stateText.fromText('exhausted')];
    const filter = await filterOfList(log.pool, shopId, parseFilter({ ...NOTHING, states }));
    const wish = { limit: 10, withBodies: false };
    const first = await listDeliveries(log.pool, filter, { ...wish, cursor: '' });
    expect(first.deliveries).toEqual([]);
    const { nextCursor: cursor } = first;
    expect(cursor).not.toBe('');
    const second = await listDeliveries(log.pool, filter, { ...wish, cursor });
    expect(second.deliveries).toHaveLength(1);
    expect(second.nextCursor).toBe('');
  });

  test('shows the deliveries of the same event to other subscriptions', async () => {
    const shopId = log.newShop();
    const subscriptions = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const event = log.eventOf(shopId, {});
    const ids = await log.add(
      shopId,
      subscriptions.map((subscriptionId) => ({ subscriptionId, event })),
    );
    const [id = ''] = ids;
    await log.add(shopId, [{ subscriptionId: subscriptions[0] ?? 0n }]);
    const { row } = await getDelivery(log.pool, { shopId, id, withBody: true });
    expect(row.body?.toString()).toContain('id');
    const related = await relatedDeliveries(log.pool, { shopId, id, eventId: row.eventId });
    expect(related.map((one) => one.row.id)).toEqual(ids.slice(1));
  });

  test.each<[Partial<FilterInput>, string]>([
    [{ subscriptionId: -1n }, 'subscription_id'],
    [{ topic: 'parcel' }, 'topic'],
    [{ trigger: 'return' }, 'trigger'],
    [{ states: [0] }, 'states'],
    [{ states: [STRANGE] }, 'states'],
    [{ from: at(2), to: at(2) }, 'to'],
    [{ returnId: 2n ** 53n }, 'return_id'],
    [{ url: 'a\0' }, 'url'],
  ])('refuses a filter that breaks a rule: %#', async (given, field) => {
    const refused = (async () => parseFilter({ ...NOTHING, ...given }))();
    await expect(refused).rejects.toMatchObject({ field });
  });

  test.each(['x', 'g'.repeat(32), '0'.repeat(33), '00000000-0000-0000-0000-000000000000'])(
    'rejects the cursor %j',
    async (cursor) => {
      const filter = await filterOfList(log.pool, log.newShop(), parseFilter(NOTHING));
      const reading = (async () =>
        listDeliveries(log.pool, filter, { cursor, limit: 1, withBodies: false }))();
      await expect(reading).rejects.toMatchObject({ field: 'cursor' });
    },
  );

  test('does not know a missing subscription, nor a deleted one where it must be live', async () => {
    const shopId = log.newShop();
    const parsed = parseFilter({ ...NOTHING, subscriptionId: 999_999n });
    await expect(resolveFilter(log.pool, shopId, parsed)).rejects.toThrow(/does not exist/);
    const subscriptionId = await log.subscribe(shopId);
    await log.unsubscribe(shopId, subscriptionId);
    const gone = parseFilter({ ...NOTHING, subscriptionId });
    expect(await resolveFilter(log.pool, shopId, gone)).toMatchObject({
      subscriptionIds: [subscriptionId],
    });
    const live = { liveOnly: true };
    await expect(resolveFilter(log.pool, shopId, gone, live)).rejects.toThrow(/does not exist/);
  });

  test('of one subscription is empty, or refused if the subscription does not exist', async () => {
    const [shopId, other] = [log.newShop(), log.newShop()];
    const subscriptionId = await log.subscribe(shopId);
    const listOf = async (
      shop: bigint,
      id: bigint,
      o: { liveOnly?: boolean; returnId?: bigint },
    ) => {
      const { liveOnly = false, ...given } = o;
      const parsed = parseFilter({ ...NOTHING, ...given, subscriptionId: id });
      const filter = await filterOfList(log.pool, shop, parsed, { liveOnly });
      const page = { cursor: '', limit: 10, withBodies: false, liveOnly };
      return (await listDeliveries(log.pool, filter, page)).deliveries.length;
    };
    const unknown = /does not exist/;
    expect(await listOf(shopId, subscriptionId, {})).toBe(0);
    await log.add(shopId, [{ subscriptionId, ended: 'delivered', returnId: 7n }]);
    expect(await listOf(shopId, subscriptionId, { liveOnly: true })).toBe(1);
    expect(await listOf(shopId, subscriptionId, { returnId: 7n })).toBe(1);
    expect(await listOf(shopId, subscriptionId, { returnId: 8n })).toBe(0);
    await expect(listOf(other, subscriptionId, {})).rejects.toThrow(unknown);
    await expect(listOf(shopId, 999_999n, { returnId: 7n })).rejects.toThrow(unknown);
    await log.unsubscribe(shopId, subscriptionId);
    expect(await listOf(shopId, subscriptionId, {})).toBe(1);
    await expect(listOf(shopId, subscriptionId, { liveOnly: true })).rejects.toThrow(unknown);
  });
});
