import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { createLog } from '../../../test/kit/webhooks/log.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import { createReplays, type Replays } from '../../../test/kit/webhooks/replays.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { lastFailure } from './backlogs.ts';
import { webhookIdOf } from './delivery.ts';
import { type FilterInput, parseFilter, resolveFilter } from './filter.ts';
import { deliveriesNamed } from './get.ts';
import { countDeliveries, listDeliveries } from './list.ts';
import { countByHour } from './methods.ts';

describe('delivery', () => {
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  beforeAll(async () => {
    webhooks = await runWebhooks();
  });
  afterAll(() => webhooks.stop());

  async function withReceiver(work: (receiver: Receiver) => Promise<void>): Promise<void> {
    receiver = await startReceiver();
    try {
      await work(receiver);
    } finally {
      await receiver.stop();
    }
  }

  describe('a delivery', () => {
    test('is signed by Standard Webhooks and describes itself', () =>
      withReceiver(async (at) => {
        const { url, received } = at;
        at.answer = (response) => {
          response.setHeader('x-receiver', 'test').setHeader('set-cookie', 'a=1').end('ok');
        };
        const shopId = newShop();
        const { secret } = await webhooks.subscribe({ shopId, url });
        const event = sampleEvent('return.closed', shopId);
        const traceId = 'a'.repeat(32);
        await webhooks.publish({ ...event, traceparent: `00-${traceId}-${'b'.repeat(16)}-01` });
        const request = await until(() => received[0]);
        const { headers, body } = request;

        const text = (name: string) => String(headers[name]);
        const standard = Object.fromEntries(
          ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [
            name,
            text(name),
          ]),
        );
        expect(new Webhook(secret).verify(body, standard)).toEqual(JSON.parse(body));
        expect(JSON.parse(body)).toMatchObject({
          topic: 'return',
          trigger: 'return.closed',
          shop_id: Number(shopId),
        });
        expect(request).toMatchObject({ method: 'POST', path: '/hook' });
        expect(headers).toMatchObject({
          'content-type': 'application/json',
          'x-service-api-version': '2026-10',
          'x-service-event': 'return.closed',
          'x-service-event-id': event.eventId,
          'x-service-sequence': event.revision.toString(),
        });
        expect(headers.sunset).toBeUndefined();
        expect(headers['user-agent']).toMatch(/\S/);
        expect(text('traceparent')).toContain(traceId);
        expect(Math.abs(Number(text('webhook-timestamp')) - Date.now() / 1_000)).toBeLessThan(30);

        const [logged] = await until(async () => {
          const rows = await webhooks.deliveries(shopId);
          return rows[0]?.state === DeliveryState.DELIVERED && rows;
        });
        expect(logged).toMatchObject({ id: text('webhook-id'), eventId: event.eventId });
        expect(Buffer.from(logged?.body ?? []).toString()).toBe(body);
        expect(logged?.attempts).toMatchObject([
          { number: 1, status: 200, error: '', url, responseExcerpt: 'ok' },
        ]);
        expect(JSON.parse(logged?.attempts[0]?.requestHeadersJson ?? '')).toHaveProperty(
          'webhook-id',
        );
        expect(logged?.attempts[0]?.responseHeadersJson).toBe('');
        const { delivery: one } = await webhooks.client.getDelivery({
          shopId,
          actor,
          deliveryId: text('webhook-id'),
        });
        expect(JSON.parse(one?.attempts[0]?.responseHeadersJson ?? '')).toMatchObject({
          'set-cookie': '(not stored)',
          'x-receiver': 'test',
        });
      }));

    test('is made once for an event that arrives twice', () =>
      withReceiver(async ({ url, received }) => {
        const shopId = newShop();
        await webhooks.subscribe({ shopId, url });
        const event = sampleEvent('return.closed', shopId);
        const last = sampleEvent('return.closed', shopId);
        await webhooks.publish(event, event);
        await webhooks.publish(event);
        await webhooks.db.pool.query('delete from consumed_events');
        await webhooks.publish(event);
        await webhooks.publish(last);
        await until(() =>
          received.some((one) => one.headers['x-service-event-id'] === last.eventId),
        );
        expect(await webhooks.deliveries(shopId)).toHaveLength(2);
        await until(() => received.length === 2);
      }));

    test('goes to each subscription of the shop with its trigger, and to no other', () =>
      withReceiver(async ({ url, received }) => {
        const [shopId, other] = [newShop(), newShop()];
        await webhooks.subscribe({ shopId, url: `${url}/a` });
        await webhooks.subscribe({ shopId, url: `${url}/b` });
        await webhooks.subscribe({ shopId, url: `${url}/c`, trigger: 'return.created' });
        await webhooks.subscribe({ shopId: other, url: `${url}/d` });
        await webhooks.publish(sampleEvent('return.closed', shopId));
        await until(() => received.length === 2);
        expect(received.map((one) => one.path).sort()).toEqual(['/hook/a', '/hook/b']);
        const ids = new Set(received.map((one) => one.headers['webhook-id']));
        expect(ids.size).toBe(2);
        expect(await webhooks.deliveries(shopId)).toHaveLength(2);
      }));

    test('skips triggers without webhooks, and counts them', async () => {
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: 'http://127.0.0.1:9/' });
      await webhooks.publish({
        ...sampleEvent('return.closed', shopId),
        trigger: 'return.invented',
      });
      expect(await webhooks.deliveries(shopId)).toHaveLength(0);
      expect(await webhooks.metrics()).toMatch(/^webhooks_events_skipped_total 1$/m);
    });
  });

  /** Lets an endpoint respond until its limit is 8 in flight. */
  async function warmUp(shopId: bigint, { received }: Receiver): Promise<void> {
    const before = received.length;
    for (let n = 1; n <= 8; n += 1) {
      await webhooks.publish(sampleEvent('return.closed', shopId));
      await until(() => received.length >= before + n);
    }
    await until(async () => {
      const { rows } = await webhooks.db.pool.query<{ flight_cap: number }>(
        'select flight_cap from endpoints where shop_id = $1 and flight_cap = 8',
        [shopId],
      );
      return rows.length === 1;
    });
  }

  describe('one endpoint', () => {
    test('never has more than 8 in flight, over all its subscriptions', () =>
      withReceiver(async (slow) => {
        const waiting: (() => void)[] = [];
        const shopId = newShop();
        await webhooks.subscribe({ shopId, url: slow.url });
        await warmUp(shopId, slow);
        await webhooks.subscribe({ shopId, url: slow.url });
        slow.answer = (response) => {
          waiting.push(() => response.writeHead(200).end());
        };
        const before = slow.received.length;
        const events = Array.from({ length: 12 }, () => sampleEvent('return.closed', shopId));
        await webhooks.publish(...events);
        for (let released = 0; released < 24; released += 1) {
          const left = Math.min(8, 24 - released);
          await until(() => waiting.length === left);
          waiting.shift()?.();
        }
        await until(() => slow.received.length === before + 24);
        expect(slow.mostOpen()).toBe(8);
      }));

    test('that hangs delays no other endpoint', () =>
      withReceiver(async (hanging) => {
        const quick = await startReceiver();
        const shopId = newShop();
        await webhooks.subscribe({ shopId, url: hanging.url });
        await warmUp(shopId, hanging);
        hanging.answer = () => {};
        const warm = hanging.received.length;
        await webhooks.subscribe({ shopId, url: quick.url, trigger: 'return.created' });
        const backlog = Array.from({ length: 200 }, () => sampleEvent('return.closed', shopId));
        await webhooks.publish(...backlog);
        await until(() => hanging.received.length === warm + 8);
        await webhooks.publish(sampleEvent('return.created', shopId));
        await until(() => quick.received.length === 1);
        // No hanging attempt has ended, or the next delivery would have been sent.
        expect(hanging.received).toHaveLength(warm + 8);
        // The service stops when its attempts have ended.
        hanging.answer = (response) => void response.end();
        await quick.stop();
      }));
  });
});

describe('counts', () => {
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
});

describe('statistics', () => {
  let log: Awaited<ReturnType<typeof createLog>>;
  beforeAll(async () => {
    log = await createLog();
  });
  afterAll(() => log.db.drop());

  const NOW = new Date('2026-11-20T10:30:00Z');
  const at = (time: string): Date => new Date(`2026-11-20T${time}Z`);

  describe('deliveries by hour', () => {
    test('are counted by their result, without test events and those of other shops', async () => {
      const [shopId, other] = [log.newShop(), log.newShop()];
      const [first, second] = [await log.subscribe(shopId), await log.subscribe(shopId)];
      const foreign = await log.subscribe(other);
      await log.add(other, [{ subscriptionId: foreign, at: at('10:00:00') }]);
      const ids = await log.add(shopId, [
        { subscriptionId: second, at: at('09:20:00') },
        { subscriptionId: first, at: at('08:59:59.999'), ended: 'delivered' },
        { subscriptionId: first, at: at('09:00:00'), ended: 'delivered' },
        { subscriptionId: first, at: at('09:59:59.999'), ended: 'exhausted' },
        { subscriptionId: second, at: at('10:00:00'), ended: 'expired' },
        { subscriptionId: second, at: at('10:10:00') },
        { subscriptionId: second, at: at('10:11:00'), ended: 'dropped' },
        { subscriptionId: second, at: at('10:12:00'), ended: 'delivered', isTest: true },
      ]);
      await log.pool.query(
        'update queue set attempts = 1, round_attempts = 1 where shop_id = $1 and id = $2',
        [shopId, ids[0]],
      );
      const counted = await countByHour(log.pool, {
        shopId,
        subscriptionId: null,
        hours: 2,
        now: NOW,
      });
      expect(counted).toEqual([
        {
          startsAt: at('09:00:00'),
          delivered: 1,
          failed: 1,
          waiting: 1,
          retrying: 1,
          isMore: false,
        },
        {
          startsAt: at('10:00:00'),
          delivered: 0,
          failed: 1,
          waiting: 1,
          retrying: 0,
          isMore: false,
        },
      ]);
      const ofFirst = await countByHour(log.pool, {
        shopId,
        subscriptionId: first,
        hours: 3,
        now: NOW,
      });
      expect(ofFirst.map(({ delivered, failed }) => [delivered, failed])).toEqual([
        [1, 0],
        [1, 1],
        [0, 0],
      ]);
    });
  });

  describe('deliveries of an event', () => {
    test('are found by its id, and each by its webhook-id, in the own shop only', async () => {
      const [shopId, other] = [log.newShop(), log.newShop()];
      const [first, second] = [await log.subscribe(shopId), await log.subscribe(shopId)];
      const event = log.eventOf(shopId, { at: at('10:00:00') });
      const ids = await log.add(shopId, [
        { subscriptionId: first, event },
        { subscriptionId: second, event },
        { subscriptionId: first, at: at('10:00:00') },
      ]);
      const { eventId } = event;
      const found = await deliveriesNamed(log.pool, { shopId, name: eventId.toUpperCase() });
      expect(found.map(({ row }) => webhookIdOf(row.id))).toEqual(
        ids.slice(0, 2).toSorted().map(webhookIdOf),
      );
      expect(await deliveriesNamed(log.pool, { shopId: other, name: eventId })).toEqual([]);
      expect(await deliveriesNamed(log.pool, { shopId, name: 'no uuid' })).toEqual([]);
      const [name = ''] = ids.map(webhookIdOf);
      const named = await deliveriesNamed(log.pool, { shopId, name });
      expect(named.map(({ row }) => webhookIdOf(row.id))).toEqual([name]);
      expect(await deliveriesNamed(log.pool, { shopId: other, name })).toEqual([]);
    });
  });
});
