import { create, fromBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
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
import { newShop } from '../../../test/support/running-service.ts';
import {
  type Receiver,
  runWebhooks,
  startReceiver,
  until,
  type WebhooksUnderTest,
} from '../../../test/support/webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { type RunningServer, startGrpcServer } from '../../platform/grpc/server.ts';
import { purge } from '../maintenance.ts';

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
  webhooks = await runWebhooks({ returnsTarget: `127.0.0.1:${returns.port}` });
});
afterAll(async () => {
  await webhooks.stop();
  await returns.stop();
});
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.stop());

/** An event whose snapshot was too large to carry, and the snapshot. */
function oversize(shopId: bigint) {
  const { snapshot, ...event } = sampleEvent('return.closed', shopId);
  if (!snapshot) throw new Error('sample events carry a snapshot');
  return { event: { ...event, snapshotOmitted: true }, snapshot };
}

describe('an event without its snapshot', () => {
  test('is read back from returns at its revision', async () => {
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

  test('waits while returns is away', async () => {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: receiver.url });
    const { event, snapshot } = oversize(shopId);
    let asked = 0;
    getSnapshot = () => {
      asked += 1;
      if (asked < 3) throw new ConnectError('away', Code.Unavailable);
      return snapshot;
    };
    await webhooks.publish(event);
    await until(() => receiver.received.length === 1);
    expect(asked).toBe(3);
  });

  test('is parked when the snapshot is gone, and holds up no other', async () => {
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

describe('a snapshot that was left out', () => {
  /** The events that were put aside, by what they were about. */
  const parked = async (returnId: bigint) => {
    const { rows } = await webhooks.db.pool.query<{ value: Buffer }>(
      'select value from poison_records',
    );
    return rows.filter(({ value }) => fromBinary(EventSchema, value).returnId === returnId).length;
  };

  test('whose reading is refused parks its event, and holds up no other of the return', async () => {
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
    expect(await parked(refused.returnId)).toBe(1);
  });

  test('is read for nobody who does not wait for it, and not again for one that was handled', async () => {
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

  test('leaves no stored payload, and the waiting one goes out without him', async () => {
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

  test('does not come back with an event that arrives late', async () => {
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
  test('removes finished deliveries with all that belongs to them, and nothing that waits', async () => {
    const shopId = newShop();
    const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(
      async () => (await webhooks.deliveries(shopId))[0]?.state === DeliveryState.DELIVERED,
    );
    receiver.answer = (response) => void response.writeHead(500).end();
    await webhooks.publish(sampleEvent('return.closed', shopId));
    await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
    const older = `update deliveries set created_at = created_at - interval '31 days',
      finished_at = finished_at - interval '31 days' where shop_id = $1`;
    await webhooks.db.pool.query(older, [shopId]);
    await webhooks.db.pool.query(
      `update payloads set created_at = created_at - interval '31 days' where shop_id = $1`,
      [shopId],
    );
    await purge(webhooks.db.pool, { log: 30, events: 7 });
    const left = await webhooks.deliveries(shopId);
    expect(left).toMatchObject([{ state: DeliveryState.WAITING, subscriptionId: id }]);
    const { rows } = await webhooks.db.pool.query(
      'select count(*)::int as payloads from payloads where shop_id = $1',
      [shopId],
    );
    expect(rows).toEqual([{ payloads: 1 }]);
  });
});
