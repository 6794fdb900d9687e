import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../../../test/kit/database.ts';
import { lockWaits } from '../../../../test/kit/postgres/lock-waits.ts';
import { newShop } from '../../../../test/kit/services/running-service.ts';
import { until } from '../../../../test/kit/until.ts';
import { newSubscription } from '../../../../test/kit/webhooks/subscription.ts';
import { inTransaction } from '../../../platform/postgres.ts';
import { retryWaiting } from './retry-waiting.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('webhooks');
});
afterAll(() => db.drop());

/** As if the attempts failed that are due. */
const failDue = (shopId: bigint) =>
  db.pool.query(
    `update queue set next_attempt_at = now() + interval '1 hour', scheduled_at = now()
      where shop_id = $1 and next_attempt_at <= now()`,
    [shopId],
  );

test('a call has no second effect while an earlier call with its key has not ended', async () => {
  const shopId = newShop();
  const subscriptionId = await newSubscription(db.pool, shopId);
  await db.pool.query(
    `insert into queue (shop_id, subscription_id, id, payload_id, bytes, is_retry, next_attempt_at, queued_at,
                        scheduled_at, round_attempts)
     select $1, $2, gen_random_uuid(), gen_random_uuid(), 1, true, now() + interval '1 hour', now(), now(), 3
       from generate_series(1, 2)`,
    [shopId, subscriptionId],
  );
  const use = { shopId, operation: 'retry', key: 'k', hash: randomBytes(32) };
  const retry = () => retryWaiting(db.pool, { shopId, subscriptionId }, { offsetMs: 0, use });
  const calls = await inTransaction(db.pool, async (tx) => {
    // Nobody can claim a key.
    await tx.query('lock table idempotency_keys in share mode');
    const first = retry();
    await until(async () => (await lockWaits(db.pool)) === 1);
    await failDue(shopId);
    const second = retry();
    await until(async () => (await lockWaits(db.pool)) === 2);
    return [first, second];
  });
  const result = { count: 2, isMore: false };
  expect(await Promise.all(calls)).toEqual([result, result]);
  await failDue(shopId);
  expect(await retry()).toEqual(result);
  // Each effect takes one attempt off.
  const { rows } = await db.pool.query(
    'select round_attempts as round from queue where shop_id = $1',
    [shopId],
  );
  expect(rows).toEqual([{ round: 2 }, { round: 2 }]);
});
