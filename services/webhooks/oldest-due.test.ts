import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../test/kit/database.ts';
import { newShop } from '../../test/kit/services/running-service.ts';
import { silentLogger, testTelemetry } from '../../test/kit/services/telemetry.ts';
import { until } from '../../test/kit/until.ts';
import { newSubscription } from '../../test/kit/webhooks/subscription.ts';
import { sampleEvent } from '../contract/sample-event.ts';
import { inTransaction } from '../platform/postgres/postgres.ts';
import type { Worker } from '../platform/process/worker.ts';
import type { Telemetry } from '../platform/telemetry/telemetry.ts';
import { createRetryClock } from './delivery/attempt/retry-schedule.ts';
import { deliveriesOf, fanOut, lockQueues } from './fan-out/fan-out.ts';
import { startMaintenance } from './maintenance.ts';

let db: TestDatabase;
let telemetry: Telemetry;
let maintenance: Worker;
beforeAll(async () => {
  db = await createTestDatabase('webhooks');
  telemetry = await testTelemetry();
  maintenance = startMaintenance({
    ...{ pool: db.pool, logger: silentLogger(), telemetry },
    clock: createRetryClock(),
    days: { log: 7, events: 7 },
  });
});
afterAll(async () => {
  await maintenance.stop();
  await telemetry.stop();
  await db.drop();
});

/** Queues a delivery that is due since `dueS` seconds, and that no process sends. */
async function deliveryDue(dueS: number, isRetry = false) {
  const shopId = newShop();
  await newSubscription(db.pool, shopId, { url: 'https://partner.example/' });
  const events = [sampleEvent('return.closed', shopId)];
  await inTransaction(db.pool, async (tx) => {
    const queues = await lockQueues(tx, events);
    await fanOut(tx, deliveriesOf(events, queues, new Date()), { offsetMs: 0 });
  });
  await db.pool.query(
    `update queue set is_retry = $3, next_attempt_at = now() - $2 * interval '1 s' where shop_id = $1`,
    [shopId, dueS, isRetry],
  );
  await readySince(shopId, dueS);
  return shopId;
}

async function readySince(shopId: bigint, seconds: number): Promise<void> {
  await db.pool.query(
    `update subscription_queues set ready_at = now() - $2 * interval '1 s' where shop_id = $1`,
    [shopId, seconds],
  );
}

/** On a slow machine the query for the metric may time out. Then it is repeated. */
const oldest = () =>
  until(async () => {
    const page = await (await fetch(telemetry.metricsUrl)).text();
    const value = /^webhooks_oldest_due_age_seconds\S* (\S+)/m.exec(page)?.[1];
    return value === undefined ? undefined : { seconds: Number(value) };
  });

test('the oldest delivery that was not tried is visible, but not a retry or one of a receiver that fails', async () => {
  expect((await oldest()).seconds).toBe(0);
  await deliveryDue(7_200, true);
  expect((await oldest()).seconds).toBe(0);
  const first = await deliveryDue(600);
  const late = await deliveryDue(3_600);
  const seconds = (await oldest()).seconds;
  expect([seconds >= 3_600, seconds < 7_200]).toEqual([true, true]);
  await db.pool.query(
    'update endpoints set circuit_opened_at = now(), held_until = now() where shop_id = $1',
    [late],
  );
  const next = (await oldest()).seconds;
  expect([next >= 600, next < 3_600]).toEqual([true, true]);
  // A limit delayed it until now.
  await readySince(first, 0);
  expect((await oldest()).seconds).toBeLessThan(600);
});
