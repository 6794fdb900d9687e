import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import {
  type Received,
  type Receiver,
  startReceiver,
} from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { delivers } from '../../contract/topics/topics.ts';
import { TOPICS, TRIGGERS, type Trigger } from '../../contract/vocabulary.ts';

describe('every pair that delivers', () => {
  let webhooks: WebhooksUnderTest;
  let today = new Date('2026-11-21T00:00:00Z');

  beforeAll(async () => {
    webhooks = await runWebhooks({ today: () => today });
  });
  afterAll(() => webhooks.stop());

  const pairs = TOPICS.flatMap((topic) =>
    TRIGGERS.filter((trigger) => delivers(topic, trigger)).map((trigger) => ({ topic, trigger })),
  );

  test.each(['2026-07', '2026-10'])(
    'has its payload in %s, by event and by test',
    async (version) => {
      const receiver = await startReceiver();
      const shopId = newShop();
      await webhooks.client.setPayloadVersion({ shopId, actor, version });
      for (const { topic, trigger } of pairs) {
        const path = `${receiver.url}/${topic}/${trigger}`;
        const { id: subscriptionId } = await webhooks.subscribe({
          shopId,
          url: path,
          topic,
          trigger,
        });
        await webhooks.client.sendTest({ shopId, actor, subscriptionId });
      }
      await until(() => receiver.received.length === pairs.length);
      await webhooks.publish(...TRIGGERS.map((trigger) => sampleEvent(trigger, shopId)));
      await until(() => receiver.received.length === 2 * pairs.length);

      for (const { path, body, headers } of receiver.received) {
        const [topic, trigger] = path.split('/').slice(-2);
        expect(JSON.parse(body)).toMatchObject({ topic, trigger });
        expect(headers).toMatchObject({
          'x-service-event': trigger,
          'x-service-api-version': version,
        });
      }
      const details = receiver.received.find((one) => one.path.endsWith('/return/return.closed'));
      const category = JSON.parse(details?.body ?? '').line_items[0].condition?.condition_category;
      if (version === '2026-07') expect(category).toEqual(expect.any(String));
      else expect(category).toMatchObject({ subject: 'item', category_parent: null });
      const { deliveries } = await webhooks.client.listDeliveries({ shopId, actor, pageSize: 200 });
      expect(deliveries.filter((delivery) => delivery.test)).toHaveLength(pairs.length);
      await receiver.stop();
    },
  );

  test('announces when its version retires, once it is deprecated, and is upgraded at its sunset', async () => {
    const receiver = await startReceiver();
    const shopId = newShop();
    await webhooks.client.setPayloadVersion({ shopId, actor, version: '2026-07' });
    const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: receiver.url });
    const sendAt = async (day: string) => {
      today = new Date(`${day}T00:00:00Z`);
      const before = receiver.received.length;
      await webhooks.client.sendTest({ shopId, actor, subscriptionId });
      return until(() => receiver.received[before]);
    };
    const versionOf = ({ headers }: Received) => [headers['x-service-api-version'], headers.sunset];
    expect(versionOf(await sendAt('2027-06-30'))).toEqual(['2026-07', undefined]);
    expect(versionOf(await sendAt('2027-07-01'))).toEqual([
      '2026-07',
      'Fri, 01 Oct 2027 00:00:00 GMT',
    ]);
    expect(versionOf(await sendAt('2027-10-01'))[0]).toBe('2026-10');
    const before = receiver.received.length;
    await webhooks.publish(sampleEvent('return.closed', shopId));
    const upgraded = await until(() => receiver.received[before]);
    expect(versionOf(upgraded)[0]).toBe('2026-10');
    const [line] = JSON.parse(upgraded.body).line_items;
    expect(line.condition.condition_category).toMatchObject({ subject: 'item' });
    today = new Date('2026-11-21T00:00:00Z');
    await receiver.stop();
  });
});

describe('many events of two shops', () => {
  const EVENTS_OF_SHOP = 60;
  const SUBSCRIPTIONS = 2;
  const TRIGGERS: readonly Trigger[] = ['return.created', 'return.closed'];
  const VERSIONS = ['2026-07', '2026-10'];

  let webhooks: WebhooksUnderTest;
  let receiver: Receiver;
  let published: Awaited<ReturnType<typeof publishForShops>>;

  beforeAll(async () => {
    webhooks = await runWebhooks({ today: () => new Date('2026-11-21T00:00:00Z') });
    receiver = await startReceiver();
    published = await publishForShops();
    await until(() => receiver.received.length >= published.wanted.length);
  });
  afterAll(async () => {
    await webhooks.stop();
    await receiver.stop();
  });

  /** The nth event: with its own return and revision, and one of two triggers. */
  function eventOf(shopId: bigint, nth: number): Event {
    const event = sampleEvent(TRIGGERS[nth % TRIGGERS.length] ?? 'return.created', shopId);
    const id = BigInt(1_000 + nth);
    const snapshot = { ...event.snapshot, id } as NonNullable<Event['snapshot']>;
    return { ...event, returnId: id, revision: BigInt(nth + 1), snapshot };
  }

  /** The event according to the path, headers and body of a request. */
  function saidBy({ path, headers, body }: Received) {
    const { shop_id: shopId, id: returnId, trigger } = JSON.parse(body);
    return {
      path,
      eventId: headers['x-service-event-id'],
      header: headers['x-service-event'],
      sequence: headers['x-service-sequence'],
      version: headers['x-service-api-version'],
      shopId,
      returnId,
      trigger,
    };
  }

  const inOrder = (all: readonly { eventId?: unknown; path: string }[]) =>
    all.toSorted((a, b) => (`${a.eventId} ${a.path}` < `${b.eventId} ${b.path}` ? -1 : 1));

  /** Shops with a version each, the secrets of their subscriptions by path, and events that are published together. */
  async function publishForShops() {
    const secrets = new Map<string, string>();
    const events: Event[] = [];
    const wanted: ReturnType<typeof saidBy>[] = [];
    for (const version of VERSIONS) {
      const shopId = newShop();
      await webhooks.client.setPayloadVersion({ shopId, actor, version });
      const pathOf = (trigger: string, nth: number) => `/hook/${shopId}/${trigger}/${nth}`;
      for (const trigger of TRIGGERS) {
        for (let nth = 0; nth < SUBSCRIPTIONS; nth += 1) {
          const path = pathOf(trigger, nth);
          const url = new URL(path, receiver.url).href;
          secrets.set(path, (await webhooks.subscribe({ shopId, url, trigger })).secret);
        }
      }
      for (let nth = 0; nth < EVENTS_OF_SHOP; nth += 1) {
        const event = eventOf(shopId, nth);
        const { eventId, trigger, revision, returnId } = event;
        events.push(event);
        for (let at = 0; at < SUBSCRIPTIONS; at += 1) {
          const ids = { eventId, shopId: Number(shopId), returnId: Number(returnId) };
          const sequence = String(revision);
          wanted.push({
            path: pathOf(trigger, at),
            header: trigger,
            trigger,
            sequence,
            version,
            ...ids,
          });
        }
      }
    }
    await webhooks.publish(...events);
    return { secrets, wanted };
  }

  test('are each sent to every subscription with their own body, sequence and version', () => {
    expect(inOrder(receiver.received.map(saidBy))).toEqual(inOrder(published.wanted));
  });

  test('are signed so that any library of Standard Webhooks verifies them', () => {
    for (const { path, headers, body } of receiver.received) {
      const webhook = new Webhook(published.secrets.get(path) ?? '');
      const signed = headers as Record<string, string>;
      expect(() => webhook.verify(body, signed, { jsonParse: false })).not.toThrow();
      // The library allows five minutes. Here the time must be the signed one.
      const at = new Date(Number(signed['webhook-timestamp']) * 1_000);
      expect(signed['webhook-signature']).toBe(webhook.sign(signed['webhook-id'] ?? '', at, body));
    }
  });

  test('have every result recorded: no delivery stays in the queue', async () => {
    await until(async () => {
      const { rows } = await webhooks.db.pool.query<{ left: number }>(
        `select (select count(*)::int from queue)
              + (select count(*)::int from deliveries where ended is distinct from 'delivered') as left`,
      );
      return rows[0]?.left === 0;
    });
    expect(receiver.received).toHaveLength(published.wanted.length);
  });
});
