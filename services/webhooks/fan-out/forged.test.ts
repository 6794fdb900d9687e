import { toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { eventsTopic } from '../../platform/bus/event-bus.ts';

let receiver: Receiver;
let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  receiver = await startReceiver();
  webhooks = await runWebhooks();
});
afterAll(async () => {
  await webhooks.stop();
  await receiver.stop();
});

describe('an event that none of our processes published', () => {
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
