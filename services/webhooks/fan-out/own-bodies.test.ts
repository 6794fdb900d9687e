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
import type { Trigger } from '../../contract/vocabulary.ts';

const EVENTS_OF_SHOP = 60;
const SUBSCRIPTIONS = 2;
const TRIGGERS: readonly Trigger[] = ['return.created', 'return.closed'];
const VERSIONS = ['2026-07', '2026-10'];

let webhooks: WebhooksUnderTest;
let receiver: Receiver;

beforeAll(async () => {
  webhooks = await runWebhooks({ today: () => new Date('2026-11-21T00:00:00Z') });
  receiver = await startReceiver();
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

describe('many events of two shops', () => {
  let published: Awaited<ReturnType<typeof publishForShops>>;
  beforeAll(async () => {
    published = await publishForShops();
    await until(() => receiver.received.length >= published.wanted.length);
  });

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
