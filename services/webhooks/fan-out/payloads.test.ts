import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Received, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { delivers } from '../../contract/topics/topics.ts';
import { TOPICS, TRIGGERS } from '../../contract/vocabulary.ts';

let webhooks: WebhooksUnderTest;
let today = new Date('2026-11-21T00:00:00Z');

beforeAll(async () => {
  webhooks = await runWebhooks({ today: () => today });
});
afterAll(() => webhooks.stop());

describe('every pair that delivers', () => {
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
