import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newShop } from '../../../test/support/running-service.ts';
import { runWebhooks, type WebhooksUnderTest } from '../../../test/support/webhooks.ts';
import { sampleEvent } from '../../contract/sample-event.ts';
import { inTransaction } from '../../platform/postgres.ts';
import { fanOut, lockLanes } from './fan-out.ts';

let webhooks: WebhooksUnderTest;

beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

test('what had to wait for its lane is due when it is written, not when its transaction began', async () => {
  const shopId = newShop();
  await webhooks.subscribe({ shopId, url: 'https://example.com/hooks' });
  const event = sampleEvent('return.closed', shopId);
  const { rows } = await inTransaction(webhooks.db.pool, async (tx) => {
    const lanes = await lockLanes(tx, [event]);
    const { rows: locked } = await tx.query<{ at: Date }>('select clock_timestamp() as at');
    await fanOut(tx, [event], lanes, { today: new Date(), offsetMs: 0 });
    return tx.query<{ isLater: boolean }>(
      'select next_attempt_at >= $2 and queued_at >= $2 as "isLater" from queue where shop_id = $1',
      [shopId, locked[0]?.at],
    );
  });
  expect(rows).toEqual([{ isLater: true }]);
});
