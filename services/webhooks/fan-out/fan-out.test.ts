import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { deliveriesOf, fanOut, lockQueues } from './fan-out.ts';

let webhooks: WebhooksUnderTest;

beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

test('a delivery that is written during a change of its subscription is not missed', async () => {
  const shopId = newShop();
  const fields = { topic: 'return', trigger: 'return.closed', url: 'https://example.com/hooks' };
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: fields.url });
  const event = sampleEvent('return.closed', shopId);
  const { pool } = webhooks.db;
  const changed = await inTransaction(pool, async (tx) => {
    const queues = await lockQueues(tx, [event]);
    await fanOut(tx, deliveriesOf([event], queues, new Date()), { offsetMs: 0 });
    const change = webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...fields });
    await until(async () => (await lockWaits(pool)) > 0);
    return { change };
  });
  await changed.change;
  const { rows } = await pool.query(
    'select ready_at is not null as "isReady" from subscription_queues where shop_id = $1',
    [shopId],
  );
  expect(rows).toEqual([{ isReady: true }]);
});

test('a delivery that had to wait for the lock of its queue is due when it is written, not when its transaction began', async () => {
  const shopId = newShop();
  await webhooks.subscribe({ shopId, url: 'https://example.com/hooks' });
  const event = sampleEvent('return.closed', shopId);
  const { rows } = await inTransaction(webhooks.db.pool, async (tx) => {
    const queues = await lockQueues(tx, [event]);
    const { rows: locked } = await tx.query<{ at: Date }>('select clock_timestamp() as at');
    await fanOut(tx, deliveriesOf([event], queues, new Date()), { offsetMs: 0 });
    return tx.query<{ isLater: boolean }>(
      'select next_attempt_at >= $2 and queued_at >= $2 as "isLater" from queue where shop_id = $1',
      [shopId, locked[0]?.at],
    );
  });
  expect(rows).toEqual([{ isLater: true }]);
});
