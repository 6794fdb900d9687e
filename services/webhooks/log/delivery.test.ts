import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';

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
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [name, text(name)]),
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
      await until(() => received.some((one) => one.headers['x-service-event-id'] === last.eventId));
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
    await webhooks.publish({ ...sampleEvent('return.closed', shopId), trigger: 'return.invented' });
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
