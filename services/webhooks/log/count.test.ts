import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createReplays, type Replays } from '../../../test/kit/webhooks/replays.ts';
import { countDeliveries } from './count.ts';
import { type FilterInput, parseFilter, resolveFilter } from './filter.ts';
import { lastFailure } from './last-failure.ts';
import { listDeliveries } from './list.ts';

let replays: Replays;
beforeAll(async () => {
  replays = await createReplays();
});
afterAll(() => replays?.stop());

const NOTHING: FilterInput = {
  subscriptionId: 0n,
  url: '',
  topic: '',
  trigger: '',
  states: [],
  returnId: 0n,
};
const MISSED = [
  DeliveryState.WAITING,
  DeliveryState.HELD,
  DeliveryState.EXHAUSTED,
  DeliveryState.EXPIRED,
];

async function filterOf(shopId: bigint, given: Partial<FilterInput>) {
  return resolveFilter(replays.log.pool, shopId, parseFilter({ ...NOTHING, ...given }));
}

async function count(shopId: bigint, given: Partial<FilterInput>, maxCounted?: number) {
  return countDeliveries(replays.log.pool, await filterOf(shopId, given), maxCounted);
}

async function listed(shopId: bigint, given: Partial<FilterInput>) {
  const page = { cursor: '', limit: 200, withBodies: false };
  return (await listDeliveries(replays.log.pool, await filterOf(shopId, given), page)).deliveries;
}

describe('the count of the log', () => {
  test('is the number of deliveries that the list shows, whatever the filter', async () => {
    const { log } = replays;
    const shopId = log.newShop();
    const [one, other] = [await log.subscribe(shopId), await log.subscribe(shopId)];
    const oldest = new Date(Date.now() - 3 * 86_400_000);
    await log.add(shopId, [
      { subscriptionId: one, ended: 'exhausted', at: oldest, returnId: 7n },
      { subscriptionId: one, ended: 'expired', returnId: 7n },
      { subscriptionId: one },
      { subscriptionId: one },
      { subscriptionId: one, ended: 'delivered', returnId: 8n },
      { subscriptionId: other, ended: 'exhausted', trigger: 'return.created' },
    ]);
    const missed = await count(shopId, { subscriptionId: one, states: MISSED });
    expect(missed).toEqual({
      count: 4,
      isMore: false,
      oldestAt: oldest,
      states: [
        { state: 'exhausted', count: 1 },
        { state: 'expired', count: 1 },
        { state: 'waiting', count: 2 },
      ],
    });
    const filters: Partial<FilterInput>[] = [
      {},
      { subscriptionId: one },
      { states: [DeliveryState.WAITING] },
      { states: [DeliveryState.EXHAUSTED] },
      { trigger: 'return.created' },
      { returnId: 7n },
      { returnId: 7n, subscriptionId: other },
      { returnId: 9n },
    ];
    for (const filter of filters) {
      const found = await listed(shopId, filter);
      expect(await count(shopId, filter)).toMatchObject({ count: found.length, isMore: false });
    }
  });

  test('ends at its limit, and says that there may be more', async () => {
    const { log } = replays;
    const shopId = log.newShop();
    const subscriptionId = await log.subscribe(shopId);
    const now = Date.now();
    const at = (minutes: number) => new Date(now - minutes * 60_000);
    await log.add(shopId, [
      { subscriptionId, ended: 'exhausted', at: at(3) },
      { subscriptionId, ended: 'delivered', at: at(2) },
      { subscriptionId, at: at(1) },
    ]);
    expect(await count(shopId, {}, 2)).toMatchObject({ count: 2, isMore: true, oldestAt: at(2) });
    const exhausted = { subscriptionId, states: [DeliveryState.EXHAUSTED] };
    expect(await count(shopId, exhausted, 2)).toEqual({
      count: 0,
      isMore: true,
      oldestAt: null,
      states: [],
    });
    expect(await count(shopId, exhausted, 3)).toMatchObject({ count: 1, isMore: false });
  });
});

test('the deliveries of a replay are listed and counted, whatever became of them', async () => {
  const { log } = replays;
  const shopId = log.newShop();
  const subscriptionId = await log.subscribe(shopId);
  const ids = await log.add(shopId, [
    { subscriptionId, ended: 'exhausted' },
    { subscriptionId, ended: 'exhausted' },
    { subscriptionId, ended: 'delivered' },
  ]);
  const job = await replays.start(shopId, { states: [DeliveryState.EXHAUSTED] });
  const ofJob = { jobId: job.id };
  expect(await count(shopId, ofJob)).toMatchObject({ count: 0 });
  await replays.batch(shopId);
  expect((await count(shopId, ofJob)).states).toEqual([{ state: 'waiting', count: 2 }]);
  await log.deliver(shopId, subscriptionId);
  expect((await count(shopId, ofJob)).states).toEqual([{ state: 'delivered', count: 2 }]);
  const found = (await listed(shopId, ofJob)).map(({ row }) => row.id);
  expect(found.toSorted()).toEqual(ids.slice(0, 2).toSorted());
  expect(await listed(shopId, { ...ofJob, states: [DeliveryState.WAITING] })).toEqual([]);
  expect(await listed(log.newShop(), ofJob)).toEqual([]);
  await expect(filterOf(shopId, { ...ofJob, returnId: 1n })).rejects.toThrow('return_id');
});

test('the newest failed attempt of a subscription is found in its queue and in its log', async () => {
  const { log } = replays;
  const shopId = log.newShop();
  const subscriptionId = await log.subscribe(shopId);
  const queue = { shopId, subscriptionId };
  const ids = await log.add(shopId, [
    { subscriptionId, ended: 'exhausted' },
    { subscriptionId },
    { subscriptionId },
    { subscriptionId, ended: 'delivered' },
  ]);
  expect(await lastFailure(log.pool, queue)).toBeUndefined();
  const attempt = (place: number, number: number, minutes: number, error: string) =>
    log.pool.query(
      `insert into attempts (shop_id, delivery_id, number, started_at, duration_ms, status, error, url,
                             request_headers, response_excerpt)
       values ($1, $2, $3, now() - $4 * interval '1 minute', 20, $5, $6, 'https://hooks.example.com/', '{}', $7)`,
      [
        shopId,
        ids[place],
        number,
        minutes,
        error === 'answered 500' ? 500 : 0,
        error,
        error === 'answered 500' ? `${'x'.repeat(199)}é?` : '',
      ],
    );
  await attempt(0, 1, 60, 'answered 500');
  await attempt(3, 1, 1, '');
  expect(await lastFailure(log.pool, queue)).toMatchObject({
    id: ids[0],
    status: 500,
    responseExcerpt: `${'x'.repeat(199)}é`,
  });
  await attempt(1, 1, 50, 'answered 500');
  await attempt(1, 2, 30, 'connection refused');
  await log.pool.query(
    'update queue set is_retry = true where shop_id = $1 and subscription_id = $2',
    [shopId, subscriptionId],
  );
  expect(await lastFailure(log.pool, queue)).toMatchObject({
    id: ids[1],
    status: 0,
    error: 'connection refused',
    url: 'https://hooks.example.com/',
    responseExcerpt: '',
  });
});
