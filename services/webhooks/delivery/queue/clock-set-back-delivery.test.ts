import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../../../test/kit/webhooks/receiver.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../../contract/sample-event.ts';

let webhooks: WebhooksUnderTest;
let receiver: Receiver;

beforeAll(async () => {
  webhooks = await runWebhooks();
  receiver = await startReceiver();
});
afterAll(async () => {
  await webhooks.stop();
  await receiver.stop();
});

/** As if the database's clock had been set back by a day: shifts every time of the shop's deliveries. */
async function setBack(shopId: bigint): Promise<void> {
  const { pool } = webhooks.db;
  await pool.query(
    `update queue set next_attempt_at = next_attempt_at + interval '1 day', scheduled_at = scheduled_at + interval '1 day'
      where shop_id = $1`,
    [shopId],
  );
  await pool.query(
    `update subscription_queues set ready_at = ready_at + interval '1 day' where shop_id = $1`,
    [shopId],
  );
}

test("a retry waits as long as before although the database's clock was set back by a day", async () => {
  const shopId = newShop();
  receiver.answer = (response, _, nth) => void response.writeHead(nth === 1 ? 500 : 204).end();
  await webhooks.subscribe({ shopId, url: receiver.url });
  await webhooks.publish(sampleEvent('return.closed', shopId));
  await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 1);
  await setBack(shopId);
  await until(async () => {
    const { rows } = await webhooks.db.pool.query(
      `select from queue where shop_id = $1 and next_attempt_at <= clock_timestamp() + interval '6 seconds'`,
      [shopId],
    );
    return rows.length === 1;
  });
  expect(receiver.received).toHaveLength(1);
  webhooks.advance(6);
  await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts.length === 2);
  const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
  expect(ids).toEqual([ids[0], ids[0]]);
});

test('a metric shows that the clock that signs requests is ten minutes ahead of the database', async () => {
  const now = Date.now;
  const ahead = jest.spyOn(Date, 'now').mockImplementation(() => now() + 600_000);
  const shown = /^webhooks_clock_difference\S* ([\d.]+)/m.exec(await webhooks.metrics());
  ahead.mockRestore();
  expect(Number(shown?.[1])).toBeGreaterThan(500);
});
