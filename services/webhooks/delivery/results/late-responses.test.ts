import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { DeliveryState } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';

/** Short, because each test waits for it, and long enough for the second attempt, which gets a response. */
const ATTEMPT_MS = 4_000;

let webhooks: WebhooksUnderTest;
let receiver: Receiver;

beforeAll(async () => {
  webhooks = await runWebhooks({ attemptMs: ATTEMPT_MS });
});
afterAll(() => webhooks.stop());
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.stop());

/** One event to one subscription of a new shop. */
async function deliverOne(): Promise<bigint> {
  const shopId = newShop();
  await webhooks.subscribe({ shopId, url: receiver.url });
  await webhooks.publish(sampleEvent('return.closed', shopId));
  return shopId;
}

/** The shop's only delivery, after this many attempts. */
function written(shopId: bigint, attempts: number) {
  return until(async () => {
    const [delivery] = await webhooks.deliveries(shopId);
    return delivery?.attempts.length === attempts && delivery;
  });
}

test('an attempt without a response in time fails, and halves the limit in flight of its endpoint', async () => {
  receiver.answer = () => {};
  const shopId = await deliverOne();
  const { attempts } = await written(shopId, 1);
  expect(attempts[0]).toMatchObject({
    status: 0,
    error: `no complete answer within ${ATTEMPT_MS} ms`,
  });
  const cap = async () => {
    const { rows } = await webhooks.db.pool.query<{ flight_cap: number }>(
      'select flight_cap from endpoints where shop_id = $1',
      [shopId],
    );
    return rows[0]?.flight_cap;
  };
  await until(async () => (await cap()) === 1);
  receiver.answer = (response) => void response.end();
  webhooks.advance(6);
  await written(shopId, 2);
  await until(async () => (await cap()) === 2);
});

test('an attempt with an endless slow response fails; an endless fast response ends at our limit', async () => {
  receiver.answer = (response) => {
    const dripping = setInterval(() => response.write('.'), 20);
    response.once('close', () => clearInterval(dripping));
  };
  const shopId = await deliverOne();
  expect((await written(shopId, 1)).attempts[0]?.error).toContain('no complete answer');

  receiver.answer = (response) => {
    const flood = (): void => {
      while (!response.destroyed && response.write('x'.repeat(16_384)));
    };
    response.on('drain', flood);
    flood();
  };
  webhooks.advance(6);
  const delivered = await written(shopId, 2);
  expect(delivered.state).toBe(DeliveryState.DELIVERED);
  expect(delivered.attempts[1]?.responseExcerpt).toBe('x'.repeat(1024));
});
