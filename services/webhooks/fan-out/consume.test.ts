import { randomUUID } from 'node:crypto';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampFromDate, timestampNow } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import {
  CustomerRedactedSchema,
  type Event,
  EventSchema,
} from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type GetSnapshotRequest,
  ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';
import { createShardHolder } from '../../platform/leases/shards.ts';
import { inTransaction } from '../../platform/postgres/postgres.ts';
import { type RunningServer, startGrpcServer } from '../../platform/rpc/server.ts';
import { DELIVERY_LEASES, DELIVERY_SHARDS, queueKeyOf } from '../delivery/queue/queue-ref.ts';
import { maintainDays, purge } from '../maintenance.ts';
import { deliveriesOf, fanOut, lockQueues } from './fan-out.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

describe('consume', () => {
  let webhooks: WebhooksUnderTest;
  let returns: RunningServer;
  let receiver: Receiver;
  let getSnapshot: (request: GetSnapshotRequest) => Return | undefined = () => undefined;

  beforeAll(async () => {
    returns = await startGrpcServer({
      port: 0,
      routes: (router) => {
        router.service(ReturnsService, {
          getSnapshot(request) {
            const found = getSnapshot(request);
            if (!found) throw new ConnectError('no', Code.NotFound);
            return { return: found };
          },
        });
      },
    });
    webhooks = await runWebhooks({ RETURNS_TARGET: `127.0.0.1:${returns.port}` });
  });
  afterAll(async () => {
    await webhooks.stop();
    await returns.stop();
  });
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  /** An event whose snapshot was too large for it, and the snapshot. */
  function oversize(shopId: bigint) {
    const { snapshot, ...event } = sampleEvent('return.closed', shopId);
    if (!snapshot) throw new Error('sample events carry a snapshot');
    return { event: { ...event, snapshotOmitted: true }, snapshot };
  }

  describe('an event without its snapshot', () => {
    test('gets it from returns at its revision', async () => {
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      const { event, snapshot } = oversize(shopId);
      getSnapshot = ({ shopId: shop, returnId, revision }) =>
        shop === shopId && returnId === event.returnId && revision === event.revision
          ? snapshot
          : undefined;
      await webhooks.publish(event);
      const { body } = await until(() => receiver.received[0]);
      expect(JSON.parse(body)).toMatchObject({ id: Number(event.returnId), topic: 'return' });
    });

    test('waits while returns is unavailable', async () => {
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      const { event, snapshot } = oversize(shopId);
      let asked = 0;
      getSnapshot = () => {
        asked += 1;
        if (asked < 3) throw new ConnectError('unavailable', Code.Unavailable);
        return snapshot;
      };
      await webhooks.publish(event);
      await until(() => receiver.received.length === 1);
      expect(asked).toBe(3);
    });

    test('becomes poison when the snapshot no longer exists, and blocks no other event', async () => {
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      getSnapshot = () => undefined;
      const next = sampleEvent('return.closed', shopId);
      await webhooks.publish(oversize(shopId).event, next);
      await until(() => receiver.received.length === 1);
      expect(receiver.received[0]?.headers['x-service-event-id']).toBe(next.eventId);
      const { rows } = await webhooks.db.pool.query('select consumer from poison_records');
      expect(rows).toEqual([{ consumer: 'webhooks' }]);
    });
  });

  /** Number of poison records about a return. */
  async function poisonOf(returnId: bigint): Promise<number> {
    const { rows } = await webhooks.db.pool.query<{ value: Buffer }>(
      'select value from poison_records',
    );
    return rows.filter(({ value }) => fromBinary(EventSchema, value).returnId === returnId).length;
  }

  test('an event that lacks the data of its topic becomes poison, and blocks no other event of the return', async () => {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: receiver.url });
    const { snapshot: _, ...bare } = sampleEvent('return.closed', shopId);
    const lacking = { ...bare, returnId: 987_654_320n };
    const next = { ...sampleEvent('return.closed', shopId), returnId: lacking.returnId };
    await webhooks.publish(lacking, next);
    await until(() => receiver.received.length === 1);
    expect(receiver.received[0]?.headers['x-service-event-id']).toBe(next.eventId);
    expect(await poisonOf(lacking.returnId)).toBe(1);
  });

  describe('a snapshot that was left out', () => {
    test('makes its event poison when the read is rejected, and blocks no other event of the return', async () => {
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      const { event } = oversize(shopId);
      const refused = { ...event, returnId: 987_654_321n };
      const next = { ...sampleEvent('return.closed', shopId), returnId: refused.returnId };
      getSnapshot = () => {
        throw new ConnectError('never', Code.Internal);
      };
      await webhooks.publish(refused, next);
      await until(() => receiver.received.length === 1);
      expect(receiver.received[0]?.headers['x-service-event-id']).toBe(next.eventId);
      expect(await poisonOf(refused.returnId)).toBe(1);
    });

    test('is read only for events that a subscription needs and that were not handled before', async () => {
      const shopId = newShop();
      const { event, snapshot } = oversize(shopId);
      let asked = 0;
      getSnapshot = () => {
        asked += 1;
        return snapshot;
      };
      await webhooks.subscribe({ shopId, url: receiver.url, trigger: 'return.created' });
      await webhooks.publish(event);
      expect(asked).toBe(0);
      await webhooks.subscribe({ shopId, url: receiver.url });
      const wanted = oversize(shopId).event;
      await webhooks.publish(wanted);
      await webhooks.publish(wanted);
      await until(() => receiver.received.length === 1);
      expect(asked).toBe(1);
    });
  });

  function redacted(shopId: bigint, returnIds: bigint[]): Event {
    const { snapshot: _, ...event } = sampleEvent('return.updated', shopId);
    const value = create(CustomerRedactedSchema, { returnIds });
    return { ...event, trigger: 'customer.redacted', detail: { case: 'customerRedacted', value } };
  }

  describe('a redacted customer', () => {
    const anonymous = {
      customer: null,
      customer_email: null,
      customer_first_name: null,
      customer_last_name: null,
    };

    test('leaves no stored payload, and the waiting delivery is sent without the customer', async () => {
      const shopId = newShop();
      const event = sampleEvent('return.closed', shopId);
      await webhooks.subscribe({ shopId, url: receiver.url });
      await webhooks.publish(event);
      await until(
        async () => (await webhooks.deliveries(shopId))[0]?.state === DeliveryState.DELIVERED,
      );
      receiver.answer = (response) =>
        void response.writeHead(500).end(event.snapshot?.customer?.email);
      await webhooks.publish(sampleEvent('return.closed', shopId));
      await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
      expect(JSON.parse(receiver.received[1]?.body ?? '').customer_email).not.toBeNull();

      await webhooks.publish(redacted(shopId, [event.returnId]));
      const [waiting, delivered] = await webhooks.deliveries(shopId);
      expect(delivered?.body).toHaveLength(0);
      expect(waiting?.attempts[0]?.responseExcerpt).toBe('');
      receiver.answer = (response) => void response.writeHead(200).end();
      webhooks.advance(6);
      const { body } = await until(() => receiver.received[2]);
      const before = JSON.parse(receiver.received[1]?.body ?? '');
      expect(JSON.parse(body)).toMatchObject(anonymous);
      expect(Object.keys(JSON.parse(body))).toEqual(Object.keys(before));
      expect(body).not.toContain(event.snapshot?.customer?.email);
    });

    test('does not return with an event that arrives late', async () => {
      const shopId = newShop();
      const late = sampleEvent('return.closed', shopId);
      await webhooks.subscribe({ shopId, url: receiver.url });
      await webhooks.publish(redacted(shopId, [late.returnId]));
      await webhooks.publish(late);
      const { body } = await until(() => receiver.received[0]);
      expect(JSON.parse(body)).toMatchObject(anonymous);
    });
  });

  describe('retention', () => {
    const DAY_MS = 24 * 3_600_000;
    const at = (daysAgo: number) => timestampFromDate(new Date(Date.now() - daysAgo * DAY_MS));
    const days = { log: 30, events: 7 };

    /** How many rows of each table the shop still has. */
    async function left(shopId: bigint) {
      const { rows } = await webhooks.db.pool.query(
        `select (select count(*)::int from payloads where shop_id = $1) as payloads,
              (select count(*)::int from deliveries where shop_id = $1) as deliveries,
              (select count(*)::int from attempts where shop_id = $1) as attempts`,
        [shopId],
      );
      return rows[0];
    }

    /** As if all finished deliveries had ended 31 days ago. */
    function age(shopId: bigint) {
      return webhooks.db.pool.query(
        `update deliveries set finished_at = finished_at - interval '31 days' where shop_id = $1`,
        [shopId],
      );
    }

    test('drops days on which all deliveries ended long ago, with their rows in other tables', async () => {
      await webhooks.db.pool.query('select create_delivery_days(40, 3)');
      const shopId = newShop();
      await webhooks.subscribe({ shopId, url: receiver.url });
      const old = { ...sampleEvent('return.closed', shopId), occurredAt: at(35) };
      const strange = { ...sampleEvent('return.closed', shopId), occurredAt: at(9_000) };
      await webhooks.publish(old, strange);
      await until(async () =>
        (await webhooks.deliveries(shopId)).every((one) => one.state === DeliveryState.DELIVERED),
      );
      receiver.answer = (response) => void response.writeHead(500).end();
      await webhooks.publish({ ...sampleEvent('return.closed', shopId), occurredAt: at(33) });
      await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
      // Deliveries that ended a short time ago stay, however old their event is.
      await maintainDays(webhooks.db.pool, days);
      expect(await left(shopId)).toEqual({ payloads: 3, deliveries: 3, attempts: 3 });
      await age(shopId);
      await webhooks.db.pool.query(
        `update attempts set started_at = started_at - interval '31 days' where shop_id = $1`,
        [shopId],
      );
      await webhooks.db.pool.query(
        `update payloads set created_at = created_at - interval '31 days' where shop_id = $1`,
        [shopId],
      );
      expect((await maintainDays(webhooks.db.pool, days)).dropped).toBeGreaterThan(0);
      expect(await left(shopId)).toEqual({ payloads: 1, deliveries: 1, attempts: 1 });
      expect(await webhooks.deliveries(shopId)).toMatchObject([{ state: DeliveryState.WAITING }]);
    });

    test('keeps a deleted subscription as long as its log', async () => {
      const shopId = newShop();
      const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
      await webhooks.publish(sampleEvent('return.closed', shopId));
      await until(
        async () => (await webhooks.deliveries(shopId))[0]?.state === DeliveryState.DELIVERED,
      );
      await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId: id });
      await until(async () => {
        const { rows } = await webhooks.db.pool.query(
          'select from subscription_queues where shop_id = $1',
          [shopId],
        );
        return rows.length === 0;
      });
      const long = `update subscriptions set deleted_at = now() - interval '31 days' where shop_id = $1`;
      await webhooks.db.pool.query(long, [shopId]);
      const count = async () =>
        (await webhooks.db.pool.query('select from subscriptions where shop_id = $1', [shopId]))
          .rows.length;
      await purge(webhooks.db.pool, days);
      expect(await count()).toBe(1);
      const migrator = new pg.Client({ connectionString: webhooks.db.migratorUrl });
      await migrator.connect();
      await migrator.query('delete from webhooks.deliveries where shop_id = $1', [shopId]);
      await migrator.end();
      await purge(webhooks.db.pool, days);
      expect(await count()).toBe(0);
    });
  });
});

describe('an event that none of our processes published', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver();
  });
  afterAll(() => receiver.stop());

  test('becomes no webhook and no row, and blocks no event of the same return', async () => {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: receiver.url });
    const forged = { ...sampleEvent('return.closed', shopId), occurredAt: timestampNow() };
    const genuine = { ...sampleEvent('return.closed', shopId), returnId: forged.returnId };
    const record = {
      key: `${shopId}:${forged.returnId}`,
      value: toBinary(EventSchema, forged),
      headers: {},
    };
    const broken = { ...record, value: Buffer.from('no event') };
    await webhooks.bus.publish(eventsTopic('returns'), [record, broken]);
    await webhooks.publish(genuine);
    await until(() => receiver.received.length > 0);
    const sent = receiver.received.map(({ headers }) => headers['x-service-event-id']);
    expect(sent).toEqual([genuine.eventId]);
    expect(await webhooks.deliveries(shopId)).toHaveLength(1);
    const { rows } = await webhooks.db.pool.query('select id from poison_records');
    expect(rows).toEqual([]);
    expect(await webhooks.metrics()).toContain(
      'events_skipped_total{group="webhooks",reason="unsigned"} 2',
    );
  });
});

test('a delivery that is written during a change of its subscription is not missed', async () => {
  const shopId = newShop();
  const fields = { topic: 'return', trigger: 'return.closed', url: 'https://example.com/hooks' };
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: fields.url });
  const event = sampleEvent('return.closed', shopId);
  const { pool } = webhooks.db;
  const changed = await inTransaction(pool, async (tx) => {
    const queues = await lockQueues(tx, [event]);
    await fanOut(tx, deliveriesOf([event], queues, new Date()), { offsetMs: 0 });
    const change = webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...fields });
    await until(async () => (await lockWaits(pool)) > 0);
    return { change };
  });
  await changed.change;
  const { rows } = await pool.query(
    'select ready_at is not null as "isReady" from subscription_queues where shop_id = $1',
    [shopId],
  );
  expect(rows).toEqual([{ isReady: true }]);
});

test('a delivery that had to wait for the lock of its queue is due when it is written, not when its transaction began', async () => {
  const shopId = newShop();
  await webhooks.subscribe({ shopId, url: 'https://example.com/hooks' });
  const event = sampleEvent('return.closed', shopId);
  const { rows } = await inTransaction(webhooks.db.pool, async (tx) => {
    const queues = await lockQueues(tx, [event]);
    const { rows: locked } = await tx.query<{ at: Date }>('select clock_timestamp() as at');
    await fanOut(tx, deliveriesOf([event], queues, new Date()), { offsetMs: 0 });
    return tx.query<{ isLater: boolean }>(
      'select next_attempt_at >= $2 and queued_at >= $2 as "isLater" from queue where shop_id = $1',
      [shopId, locked[0]?.at],
    );
  });
  expect(rows).toEqual([{ isLater: true }]);
});

describe('notify', () => {
  let db: TestDatabase;

  beforeAll(async () => {
    db = await createTestDatabase('webhooks');
  });
  afterAll(() => db.drop());

  const stops: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  });

  test('the replica that owns an endpoint is notified of deliveries that another replica has written', async () => {
    const other = createShardHolder({
      pool: db.pool,
      owner: randomUUID(),
      name: DELIVERY_LEASES,
      count: DELIVERY_SHARDS,
      // A long lease, so that a slow machine keeps the shards.
      leaseMs: 60_000,
    });
    // It takes all shards, and hands none over.
    await other.rebalance();
    stops.push(() => other.release());
    const webhooks = await runWebhooks({ db });
    stops.push(() => webhooks.stop());
    const shopId = newShop();
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: 'http://127.0.0.1:1/' });
    const listener = new pg.Client({ connectionString: db.url });
    await listener.connect();
    stops.push(() => listener.end());
    const notified: string[] = [];
    listener.on('notification', ({ payload = '' }) => notified.push(...payload.split(',')));
    await listener.query('listen webhooks_due_webhooks');
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(() => notified.includes(queueKeyOf({ shopId, subscriptionId })));
    expect(other.owned()).toHaveLength(DELIVERY_SHARDS);
  });
});
