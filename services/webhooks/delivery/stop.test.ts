import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DeliveryState } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { startReceiver } from '../../../test/kit/webhooks/receiver.ts';
import { runWebhooks } from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

describe('a process that stops while an endpoint hangs', () => {
  test('hands the other endpoints over immediately, and records its attempts in flight', async () => {
    const receiver = await startReceiver();
    let answer = (): void => {};
    receiver.answer = (response, { path }) => {
      if (path.endsWith('/hangs')) answer = () => void response.writeHead(200).end();
      else response.writeHead(200).end();
    };
    const leaving = await runWebhooks({ db });
    const [hanging, healthy] = [newShop(), newShop()];
    await leaving.subscribe({ shopId: hanging, url: `${receiver.url}/hangs` });
    await leaving.subscribe({ shopId: healthy, url: `${receiver.url}/answers` });
    await leaving.publish(sampleEvent('return.closed', hanging));
    await until(() => receiver.received.length === 1);
    const stopped = leaving.stop();

    const staying = await runWebhooks({ db });
    await staying.publish(sampleEvent('return.closed', healthy));
    await until(() => receiver.received.length === 2);
    expect(receiver.received[1]?.path).toContain('/answers');

    answer();
    await stopped;
    const [delivery] = await staying.deliveries(hanging);
    expect(delivery).toMatchObject({ state: DeliveryState.DELIVERED, attempts: [{ status: 200 }] });
    expect(receiver.received).toHaveLength(2);
    await staying.stop();
    await receiver.stop();
  });
});
