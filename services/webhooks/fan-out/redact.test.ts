import { timestampNow } from '@bufbuild/protobuf/wkt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import {
  DeliveryState,
  UnreplayableReason,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { delivers, payloadOf } from '../../contract/topics/topics.ts';
import { TOPICS, TRIGGERS } from '../../contract/vocabulary.ts';
import { inTransaction } from '../../platform/postgres/postgres.ts';
import { requeue } from '../delivery/queue/requeue.ts';
import { addBackfilled } from '../jobs/worker.ts';
import { deleteLateResponses, redactReturns } from './redact.ts';
import { shapeBody, withoutCustomer } from './shape.ts';

describe('redact', () => {
  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;

  beforeAll(async () => {
    webhooks = await runWebhooks();
  });
  afterAll(() => webhooks.stop());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(() => receiver.stop());

  /** Deliveries of one return that have arrived. */
  async function withDelivered(count: number) {
    const shopId = newShop();
    await webhooks.subscribe({ shopId, url: receiver.url });
    const events = Array.from({ length: count }, () => sampleEvent('return.closed', shopId));
    await webhooks.publish(...events);
    const deliveries = await until(async () => {
      const all = await webhooks.deliveries(shopId);
      return all.every((one) => one.state === DeliveryState.DELIVERED) && all;
    });
    return { shopId, returnIds: [events[0]?.returnId ?? 0n], deliveries };
  }

  /** The stored bodies that are not null. */
  async function bodies(shopId: bigint): Promise<string[]> {
    const { rows } = await webhooks.db.pool.query<{ body: Buffer }>(
      'select body from payloads where shop_id = $1 and body is not null order by id',
      [shopId],
    );
    return rows.map((row) => row.body.toString('utf8'));
  }

  /** Whether some session waits for the row of another one. */
  const hasLockWaits = async () => (await lockWaits(webhooks.db.pool)) > 0;

  /** A connection that records the greatest number of bodies that one statement has read. */
  function countingBodies(client: pg.PoolClient): { tx: pg.PoolClient; most: () => number } {
    let most = 0;
    const query = async (text: string, values?: unknown[]) => {
      const result = await client.query(text, values);
      most = Math.max(most, result.rows.filter((row) => row.body).length);
      return result;
    };
    const tx: pg.PoolClient = Object.create(client, { query: { value: query } });
    return { tx, most: () => most };
  }

  describe('a redaction and a replay at the same time', () => {
    test('the replay waits for the redaction, and the payload is gone', async () => {
      const { shopId, returnIds, deliveries } = await withDelivered(1);
      const deliveryId = deliveries[0]?.id ?? '';
      const replayed = await inTransaction(webhooks.db.pool, async (tx) => {
        await redactReturns(tx, shopId, returnIds);
        let isDone = false;
        const replay = refusal(webhooks.client.replayDelivery({ shopId, actor, deliveryId }));
        const done = replay.finally(() => {
          isDone = true;
        });
        await until(async () => isDone || (await hasLockWaits()));
        return { done };
      });
      expect(await replayed.done).toMatchObject({ reason: 'STATE_FORBIDS' });
      expect((await webhooks.deliveries(shopId))[0]?.state).toBe(DeliveryState.DELIVERED);
    });

    test('the redaction waits for the replay, and leaves it a body without the customer', async () => {
      const { shopId, returnIds } = await withDelivered(1);
      const redaction = await inTransaction(webhooks.db.pool, async (replay) => {
        // The locks and writes of a replay before its commit.
        await replay.query('select from payloads where shop_id = $1 for share', [shopId]);
        await replay.query(
          'update deliveries set ended = null, finished_at = null where shop_id = $1',
          [shopId],
        );
        const done = inTransaction(webhooks.db.pool, (tx) => redactReturns(tx, shopId, returnIds));
        await until(hasLockWaits);
        return { done };
      });
      await redaction.done;
      expect((await bodies(shopId)).map((body) => JSON.parse(body).customer_email)).toEqual([null]);
    });
  });

  describe('a body that is stored again without the customer', () => {
    test('is sent only to subscriptions that did not get it with the customer under the same id', async () => {
      const shopId = newShop();
      const first = await webhooks.subscribe({ shopId, url: `${receiver.url}/first` });
      const event = { ...sampleEvent('return.closed', shopId), occurredAt: timestampNow() };
      await webhooks.publish(event);
      const ofSubscription = async (id: bigint) => {
        const all = await webhooks.deliveries(shopId);
        return all.find(
          (one) => one.subscriptionId === id && one.state === DeliveryState.DELIVERED,
        );
      };
      const old = await until(() => ofSubscription(first.id));
      await inTransaction(webhooks.db.pool, (tx) => redactReturns(tx, shopId, [event.returnId]));
      const second = await webhooks.subscribe({ shopId, url: `${receiver.url}/second` });
      const { rows } = await webhooks.db.pool.query<{ version: string }>(
        'select api_version as version from payloads where shop_id = $1',
        [shopId],
      );
      const how = { topic: 'return', version: rows[0]?.version ?? '' };
      const body = shapeBody(event, { ...how, isRedacted: false });
      if (!body) throw new Error('it has a body');
      const queue = { shopId, subscriptionId: second.id };
      await inTransaction(webhooks.db.pool, (tx) => {
        const backfilled = { ...how, event, subscriptionId: second.id, body, isTest: false };
        return addBackfilled(tx, queue, [backfilled], { offsetMs: 0 });
      });
      const fresh = await until(() => ofSubscription(second.id));

      expect(
        await webhooks.client.previewReplay({ shopId, actor, filter: { trigger: event.trigger } }),
      ).toMatchObject({
        replayable: 1,
        notReplayable: [{ reason: UnreplayableReason.PAYLOAD_GONE, count: 1 }],
      });
      const replay = ({ id: deliveryId }: { id: string }) =>
        webhooks.client.replayDelivery({ shopId, actor, deliveryId });
      expect(await refusal(replay(old))).toMatchObject({ reason: 'STATE_FORBIDS' });
      const ids = [old.id.replace('msg_', '')];
      const started = await inTransaction(webhooks.db.pool, (tx) =>
        requeue(tx, { shopId, ids, offsetMs: 0 }),
      );
      expect(started).toEqual([]);
      await replay(fresh);
      await until(() => receiver.received.length === 3);
      const [, before, again] = receiver.received;
      expect([again?.path, again?.body]).toEqual([before?.path, before?.body]);
      expect(before?.headers['webhook-id']).toBe(fresh.id);
    });
  });

  describe('a redaction while a response is being recorded', () => {
    test('deletes the response soon after', async () => {
      const shopId = newShop();
      let release = (): void => {};
      receiver.answer = (response) => {
        release = () => void response.setHeader('x-echo', 'jane').end('jane@example.com');
      };
      await webhooks.subscribe({ shopId, url: receiver.url });
      const event = sampleEvent('return.closed', shopId);
      await webhooks.publish(event);
      await until(() => receiver.received.length === 1);
      const answers = async () => {
        const { rows } = await webhooks.db.pool.query<{ excerpt: string; headers: string }>(
          'select response_excerpt as excerpt, response_headers as headers from attempts where shop_id = $1',
          [shopId],
        );
        return rows;
      };
      await inTransaction(webhooks.db.pool, async (tx) => {
        await redactReturns(tx, shopId, [event.returnId]);
        release();
        await until(async () =>
          (await answers()).some(({ headers }) => headers.includes('x-echo')),
        );
      });
      await deleteLateResponses(webhooks.db.pool);
      expect(await answers()).toEqual([{ excerpt: '', headers: '' }]);
    });
  });

  describe('a redaction of many payloads', () => {
    test('covers all of them, and reads only waiting ones, one at a time', async () => {
      const { shopId, returnIds, deliveries } = await withDelivered(120);
      const waiting = deliveries.slice(0, 2).map((one) => one.id.replace('msg_', ''));
      await webhooks.db.pool.query(
        `update deliveries set ended = null, finished_at = null
        where shop_id = $1 and id = any($2::uuid[])`,
        [shopId, waiting],
      );
      const most = await inTransaction(webhooks.db.pool, async (client) => {
        const watched = countingBodies(client);
        await redactReturns(watched.tx, shopId, returnIds);
        return watched.most;
      });
      expect(most()).toBe(1);
      const left = (await bodies(shopId)).map((body) => JSON.parse(body).customer_email);
      expect(left).toEqual([null, null]);
    });
  });
});

const pairs = TOPICS.flatMap((topic) =>
  TRIGGERS.filter((trigger) => delivers(topic, trigger)).map(
    (trigger) => [topic, trigger] as const,
  ),
);

function payload(topic: string, trigger: (typeof TRIGGERS)[number]): object {
  const event = sampleEvent(trigger, 7n);
  return payloadOf(topic, event, event.snapshot) ?? {};
}

/** All data about the shopper in the sample. */
const SHOPPER = /shopper@example\.com|"Sam(?: Sample)?"|"Sample"|\/uploads\//;

describe('a payload after its customer was redacted', () => {
  test.each(pairs)(
    'of %s on %s has no data about the shopper, and keeps every key',
    (topic, trigger) => {
      const before = payload(topic, trigger);
      const after = withoutCustomer(topic, before);
      expect(SHOPPER.exec(JSON.stringify(after))?.[0]).toBeUndefined();
      expect(Object.keys(after)).toEqual(Object.keys(before));
    },
  );

  test('of a label request still has the destination of the parcel', () => {
    const { addresses } = withoutCustomer(
      'label.request',
      payload('label.request', 'label.request.issued'),
    ) as {
      addresses: object;
    };
    expect(addresses).toEqual({
      origin: null,
      destination: expect.objectContaining({ name: 'Sample warehouse' }),
    });
  });

  test('lost some data, if its topic has data about the shopper', () => {
    const telling = pairs.filter(([topic, trigger]) =>
      SHOPPER.test(JSON.stringify(payload(topic, trigger))),
    );
    expect([...new Set(telling.map(([topic]) => topic))]).toEqual([
      'return',
      'label.request',
      'giftcard',
      'withdrawal',
    ]);
  });
});
